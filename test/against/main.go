// Command against runs a command against its own kube-apiserver and etcd, which end with the
// command. KUBECONFIG, and KELSON_TEST_KUBECONFIG for tests that support both servers, name an
// administrator's kubeconfig.
//
//	go build -o bin/peers/ ./bench/peers/...
//	go run ./test/against -- kubectl get namespaces
//
// Only the API server runs: no controller manager, scheduler or kubelet. Dependents are not
// collected, and pods stay Pending.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kelson.dev/apiserver/pki"
	"kelson.dev/test/child"
)

func main() {
	peers := flag.String("peers", "bin/peers", "folder with etcd and kube-apiserver")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "against: want a command")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, *peers, flag.Args())
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() > 0 {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "against:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, peers string, command []string) error {
	dir, err := os.MkdirTemp("", "kelson-against-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ports := [3]string{}
	for i := range ports {
		if ports[i], err = child.FreePort(); err != nil {
			return err
		}
	}
	config, err := writeKeys(dir, "https://127.0.0.1:"+ports[2])
	if err != nil {
		return fmt.Errorf("write keys: %w", err)
	}
	etcdURL := "http://127.0.0.1:" + ports[0]
	etcd, err := child.Start(dir, filepath.Join(peers, "etcd"),
		"--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", etcdURL, "--advertise-client-urls", etcdURL,
		"--listen-peer-urls", "http://127.0.0.1:"+ports[1], "--log-level", "error", "--unsafe-no-fsync")
	if err != nil {
		return err
	}
	defer etcd.Stop(10 * time.Second)
	file := func(name string) string { return filepath.Join(dir, name) }
	api, err := child.Start(dir, filepath.Join(peers, "kube-apiserver"),
		"--etcd-servers", etcdURL, "--bind-address", "127.0.0.1", "--secure-port", ports[2], "--authorization-mode",
		"RBAC",
		"--tls-cert-file", file("server.crt"), "--tls-private-key-file", file("server.key"), "--client-ca-file",
		file("ca.crt"),
		"--service-cluster-ip-range", "10.0.0.0/24", "--disable-admission-plugins", "ServiceAccount",
		"--requestheader-client-ca-file", file("proxy-ca.crt"), "--requestheader-allowed-names", "aggregator",
		"--requestheader-username-headers", "X-Remote-User", "--requestheader-group-headers", "X-Remote-Group",
		"--requestheader-extra-headers-prefix", "X-Remote-Extra-",
		"--proxy-client-cert-file", file("proxy.crt"), "--proxy-client-key-file", file("proxy.key"),
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", file("sa.key"), "--service-account-signing-key-file", file("sa.key"))
	if err != nil {
		return err
	}
	defer api.Stop(10 * time.Second)
	if err := ready(ctx, api, config); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "KUBECONFIG="+file("kubeconfig"), "KELSON_TEST_KUBECONFIG="+file("kubeconfig"))
	return cmd.Run()
}

// writeKeys creates the keys of the server and of an administrator, and the administrator's
// kubeconfig.
func writeKeys(dir, url string) (*rest.Config, error) {
	authority, err := pki.NewAuthority("against")
	if err != nil {
		return nil, err
	}
	server, err := authority.Server("127.0.0.1", "localhost")
	if err != nil {
		return nil, err
	}
	admin, err := authority.Client("admin", "system:masters")
	if err != nil {
		return nil, err
	}
	proxies, err := pki.NewAuthority("against-front-proxy")
	if err != nil {
		return nil, err
	}
	proxy, err := proxies.Client("aggregator")
	if err != nil {
		return nil, err
	}
	if _, err := pki.OpenKey(filepath.Join(dir, "sa.key")); err != nil {
		return nil, err
	}
	for name, data := range map[string][]byte{
		"ca.crt": authority.PEM, "server.crt": server.CertPEM, "server.key": server.KeyPEM,
		"proxy-ca.crt": proxies.PEM, "proxy.crt": proxy.CertPEM, "proxy.key": proxy.KeyPEM,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return nil, err
		}
	}
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["kube-apiserver"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: authority.PEM}
	kubeconfig.AuthInfos["admin"] = &clientcmdapi.AuthInfo{ClientCertificateData: admin.CertPEM,
		ClientKeyData: admin.KeyPEM}
	kubeconfig.Contexts["kube-apiserver"] = &clientcmdapi.Context{Cluster: "kube-apiserver", AuthInfo: "admin"}
	kubeconfig.CurrentContext = "kube-apiserver"
	if err := clientcmd.WriteToFile(*kubeconfig, filepath.Join(dir, "kubeconfig")); err != nil {
		return nil, err
	}
	return clientcmd.NewDefaultClientConfig(*kubeconfig, nil).ClientConfig()
}

// ready waits until the server is ready and has created the default namespace.
func ready(ctx context.Context, p *child.Process, config *rest.Config) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	for _, path := range []string{"/readyz", "/api/v1/namespaces/default"} {
		for !found(ctx, client, config.Host+path) {
			select {
			case <-time.After(50 * time.Millisecond):
			case <-p.Done:
				return fmt.Errorf("%s ended before it was ready:\n%s", p.Path, p.Output())
			case <-ctx.Done():
				return fmt.Errorf("%s: %w", path, ctx.Err())
			}
		}
	}
	return nil
}

func found(ctx context.Context, client *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
