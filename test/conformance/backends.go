package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/kubernetes/test/images/agnhost/crd-conversion-webhook/converter"
	"k8s.io/kubernetes/test/images/agnhost/webhook"
)

// backends serves the backends of the Services in three groups of specs. The specs deploy images,
// but the simulated node only reports that these run. The handlers of the webhooks are those of the
// image agnhost, in this process; the API server of the Aggregator's spec is Kubernetes' sample
// with an etcd, as processes. When such a Service appears, its annotation kelson.dev/url is set.
type backends struct {
	options
	client kubernetes.Interface
	server string // URL of the control plane
	ca     []byte // of that server
	hooks  string // URL of the webhooks

	mu    sync.Mutex
	certs map[string]*tls.Certificate // of webhooks, by host name
}

// secrets names the Secret with the certificate of each Service.
var secrets = map[string]string{
	"e2e-test-webhook":                "sample-webhook-secret",
	"e2e-test-crd-conversion-webhook": "sample-custom-resource-conversion-webhook-secret",
	sampleAPI:                         "sample-apiserver-secret",
}

const sampleAPI = "sample-api"

// serveBackends serves backends until ctx ends.
func serveBackends(ctx context.Context, opts options, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	b := &backends{options: opts, client: client, server: config.Host, ca: config.CAData,
		certs: map[string]*tls.Certificate{}}
	if err := b.serveHooks(ctx); err != nil {
		return fmt.Errorf("serve webhooks: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	_, err = factory.Core().V1().Services().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			service := obj.(*corev1.Service)
			if secrets[service.Name] == "" {
				return
			}
			go func() {
				if err := b.serve(ctx, service); err != nil && ctx.Err() == nil {
					log.Printf("backend of Service %s/%s: %v", service.Namespace, service.Name, err)
				}
			}()
		},
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	return nil
}

// serve starts the backend of a Service and annotates the Service.
func (b *backends) serve(ctx context.Context, service *corev1.Service) error {
	secret, err := b.client.CoreV1().Secrets(service.Namespace).Get(ctx, secrets[service.Name], metav1.GetOptions{})
	if err != nil {
		return err
	}
	at := b.hooks
	if service.Name == sampleAPI {
		if at, err = b.startSample(ctx, service.Namespace, secret); err != nil {
			return err
		}
	} else {
		pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
		if err != nil {
			return err
		}
		b.mu.Lock()
		b.certs[service.Name+"."+service.Namespace+".svc"] = &pair
		b.mu.Unlock()
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{"kelson.dev/url": at}}})
	if err != nil {
		return err
	}
	_, err = b.client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name, types.MergePatchType, patch,
		metav1.PatchOptions{})
	return err
}

// serveHooks serves the webhooks of all specs, with the certificate of the Service that the client
// expects.
func (b *backends) serveHooks(ctx context.Context) error {
	if err := b.addHooks(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	b.hooks = "https://" + listener.Addr().String()
	server := &http.Server{Handler: http.DefaultServeMux, TLSConfig: &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			if pair := b.certs[hello.ServerName]; pair != nil {
				return pair, nil
			}
			return nil, fmt.Errorf("no webhook is called %q", hello.ServerName)
		},
	}}
	context.AfterFunc(ctx, func() { server.Close() })
	go func() {
		if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			log.Printf("serve webhooks: %v", err)
		}
	}()
	return nil
}

// addHooks registers agnhost's handlers in [http.DefaultServeMux]. The handlers of admission
// webhooks are not exported. Only agnhost's command registers them; it also serves them, with a
// certificate that no client expects.
func (b *backends) addHooks() error {
	http.HandleFunc("/crdconvert", converter.ServeExampleConvert)
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return err
	}
	certFile, keyFile := filepath.Join(b.work, "agnhost.crt"), filepath.Join(b.work, "agnhost.key")
	if err := errors.Join(os.WriteFile(certFile, certificate, 0o600), os.WriteFile(keyFile, key, 0o600)); err != nil {
		return err
	}
	webhook.CmdWebhook.SetArgs([]string{"--tls-cert-file", certFile, "--tls-private-key-file", keyFile, "--port", "0"})
	go func() { log.Printf("agnhost webhook ended: %v", webhook.CmdWebhook.Execute()) }()
	last := &http.Request{Method: http.MethodGet, Host: "localhost", URL: &url.URL{Path: "/readyz"}}
	return eventually(10*time.Second, func() error {
		if _, pattern := http.DefaultServeMux.Handler(last); pattern == "" {
			return errors.New("agnhost has not registered its handlers")
		}
		return nil
	})
}

// startSample starts Kubernetes' sample API server and its etcd, which end with ctx, and returns
// its URL when it is ready.
func (b *backends) startSample(ctx context.Context, namespace string, secret *corev1.Secret) (at string, err error) {
	dir, err := os.MkdirTemp(b.work, "sample-")
	if err != nil {
		return "", err
	}
	kubeconfig, err := b.accountKubeconfig(ctx, namespace, dir)
	if err != nil {
		return "", err
	}
	for name, data := range secret.Data {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return "", err
		}
	}
	var ports [3]string
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return "", err
		}
	}
	etcd := "http://127.0.0.1:" + ports[0]
	for _, c := range []*exec.Cmd{
		command(ctx, filepath.Join(b.peers, "etcd"), "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls",
			etcd,
			"--advertise-client-urls", etcd, "--listen-peer-urls", "http://127.0.0.1:"+ports[1], "--log-level", "error",
			"--unsafe-no-fsync"),
		command(ctx, filepath.Join(b.peers, "wardle"), "--secure-port", ports[2], "--etcd-servers", etcd,
			"--kubeconfig", kubeconfig,
			"--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig,
			"--tls-cert-file", filepath.Join(dir, "tls.crt"), "--tls-private-key-file", filepath.Join(dir, "tls.key"),
			"--audit-log-path=-", "--audit-log-maxage=0", "--audit-log-maxbackup=0"),
	} {
		output, err := os.Create(filepath.Join(dir, filepath.Base(c.Path)+".log"))
		if err != nil {
			return "", err
		}
		defer output.Close() // the process has its own descriptor of the log
		c.Stdout, c.Stderr = output, output
		if err := c.Start(); err != nil {
			return "", fmt.Errorf("%w (make aggregation builds it)", err)
		}
		go func() { _ = c.Wait() }() // it runs until this program ends
	}
	at = "https://127.0.0.1:" + ports[2]
	client := http.Client{Timeout: time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	return at, eventually(time.Minute, func() error {
		resp, err := client.Get(at + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s/readyz: %s", at, resp.Status)
		}
		return nil
	})
}

// accountKubeconfig writes a kubeconfig of the service account default, which a pod would have.
func (b *backends) accountKubeconfig(ctx context.Context, namespace, dir string) (file string, err error) {
	token, err := b.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, "default",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	config := api.NewConfig()
	config.Clusters["kelson"] = &api.Cluster{Server: b.server, CertificateAuthorityData: b.ca}
	config.AuthInfos["default"] = &api.AuthInfo{Token: token.Status.Token}
	config.Contexts["kelson"] = &api.Context{Cluster: "kelson", AuthInfo: "default"}
	config.CurrentContext = "kelson"
	file = filepath.Join(dir, "kubeconfig")
	return file, clientcmd.WriteToFile(*config, file)
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}

// eventually repeats do until it succeeds, and returns its last error after limit.
func eventually(limit time.Duration, do func() error) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(50 * time.Millisecond) {
		if err := do(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
