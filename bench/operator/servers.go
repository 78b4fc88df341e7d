package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kelson.dev/apiserver/pki"
	"kelson.dev/bench/operator/sample"
	"kelson.dev/operator/client"
	"kelson.dev/test/child"
)

// server is a control plane. Both control planes write to disk before they respond.
type server struct {
	name       string
	kubeconfig string
	client     client.Client
	processes  []*child.Process
}

func startKelson(ctx context.Context, dir string) (*server, error) {
	s := &server{name: "kelson", kubeconfig: filepath.Join(dir, "kelson.kubeconfig")}
	port, err := child.FreePort()
	if err != nil {
		return nil, err
	}
	err = s.start(dir, *kelson, "serve", "--node=none", "--secure-port", port, "--data-dir",
		filepath.Join(dir, "state"), "--kubeconfig", s.kubeconfig)
	if err != nil {
		return nil, err
	}
	return s, s.ready(ctx)
}

func startPeer(ctx context.Context, dir string) (*server, error) {
	s := &server{name: "kube-apiserver", kubeconfig: filepath.Join(dir, "peer.kubeconfig")}
	ports := [3]string{}
	for i := range ports {
		var err error
		if ports[i], err = child.FreePort(); err != nil {
			return nil, err
		}
	}
	if err := writeKeys(dir, "https://127.0.0.1:"+ports[2], s.kubeconfig); err != nil {
		return nil, fmt.Errorf("write keys: %w", err)
	}
	etcd := "http://127.0.0.1:" + ports[0]
	err := s.start(dir, filepath.Join(*peers, "etcd"), "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls",
		etcd,
		"--advertise-client-urls", etcd, "--listen-peer-urls", "http://127.0.0.1:"+ports[1], "--log-level", "error",
		"--quota-backend-bytes", "8589934592")
	if err == nil {
		at := func(name string) string { return filepath.Join(dir, name) }
		err = s.start(dir, filepath.Join(*peers, "kube-apiserver"), "--etcd-servers", etcd, "--bind-address",
			"127.0.0.1", "--secure-port", ports[2],
			"--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.0.0.0/24", "--disable-admission-plugins",
			"ServiceAccount",
			"--tls-cert-file", at("server.crt"), "--tls-private-key-file", at("server.key"), "--client-ca-file",
			at("ca.crt"),
			"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", at("sa.key"),
			"--service-account-signing-key-file", at("sa.key"))
	}
	if err == nil {
		err = s.ready(ctx)
	}
	if err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// writeKeys creates an authority, the server's keys, and an administrator's kubeconfig.
func writeKeys(dir, url, kubeconfig string) error {
	authority, err := pki.NewAuthority("bench")
	if err != nil {
		return err
	}
	server, err := authority.Server("127.0.0.1", "localhost")
	if err != nil {
		return err
	}
	admin, err := authority.Client("admin", "system:masters")
	if err != nil {
		return err
	}
	if _, err := pki.OpenKey(filepath.Join(dir, "sa.key")); err != nil {
		return err
	}
	for name, data := range map[string][]byte{"ca.crt": authority.PEM, "server.crt": server.CertPEM,
		"server.key": server.KeyPEM} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	config := api.NewConfig()
	config.Clusters["bench"] = &api.Cluster{Server: url, CertificateAuthorityData: authority.PEM}
	config.AuthInfos["bench"] = &api.AuthInfo{ClientCertificateData: admin.CertPEM, ClientKeyData: admin.KeyPEM}
	config.Contexts["bench"] = &api.Context{Cluster: "bench", AuthInfo: "bench"}
	config.CurrentContext = "bench"
	return clientcmd.WriteToFile(*config, kubeconfig)
}

// ready waits until the server is ready, and creates its client.
func (s *server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if cfg, err := sample.Config(s.kubeconfig); err == nil {
			if s.client, err = client.New(client.Config{REST: cfg}); err == nil {
				if _, err := client.Get[corev1.Namespace](ctx, s.client, client.Key{Name: "default"}); err == nil {
					return nil
				}
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-s.processes[len(s.processes)-1].Done:
			return fmt.Errorf("%s ended before it was ready:\n%s", s.name, s.processes[len(s.processes)-1].Output())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", s.name, ctx.Err())
		}
	}
}

func (s *server) start(dir, binary string, args ...string) error {
	p, err := child.Start(dir, binary, args...)
	if err == nil {
		s.processes = append(s.processes, p)
	}
	return err
}

// prepare prepares a measurement: it flushes pending disk writes and reads the executables into
// memory.
func (s *server) prepare() error {
	syscall.Sync()
	for _, p := range s.processes {
		if err := load(fmt.Sprintf("/proc/%d/exe", p.ID)); err != nil {
			return err
		}
	}
	return nil
}

// cpu returns the seconds of CPU time of the server and its etcd.
func (s *server) cpu() float64 {
	var all float64
	for _, p := range s.processes {
		used, _ := child.UsageOf(p.ID)
		all += used.CPU.Seconds()
	}
	return all
}

func (s *server) stop() {
	for i := len(s.processes) - 1; i >= 0; i-- {
		s.processes[i].Stop(20 * time.Second)
	}
}
