package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/apiserver/pki"
	"kelson.dev/test/child"
)

// side is a column of the table: a server, and how it stores its state.
type side struct {
	name    string
	kelson  bool
	durable bool // acknowledged writes survive a crash of the machine
	servers int  // API servers; 0 means one
	members int  // of the etcd cluster; 0: kelson stores its state itself
}

// server is a running side, with an administrator's client.
type server struct {
	side      side
	urls      []string // of the API servers
	given     int      // clients that exist: they take turns with the servers
	tls       *tls.Config
	processes []process
	dir       string
	// readyIn is the time from the start of the first process to the first successful response of
	// /readyz.
	readyIn time.Duration
}

// start starts a side with an empty state and waits until it is ready. All its files are in a
// folder that stop removes.
func (o *options) start(ctx context.Context, s side) (_ *server, err error) {
	dir, err := os.MkdirTemp(o.scratch, "kelson-figures-")
	if err != nil {
		return nil, err
	}
	srv := &server{side: s, dir: dir}
	defer func() {
		if err != nil {
			srv.stop()
		}
	}()
	begin := time.Now()
	etcd, err := o.startEtcd(srv)
	if err != nil {
		return nil, err
	}
	start := o.startPeer
	if s.kelson {
		start = o.startKelson
	} else if err := srv.writeKeys(); err != nil {
		return nil, fmt.Errorf("write keys: %w", err)
	}
	for range max(1, s.servers) {
		if err := start(ctx, srv, etcd, begin); err != nil {
			return nil, err
		}
	}
	return srv, nil
}

// stop stops the processes in reverse order, and removes their state.
func (s *server) stop() {
	for i := len(s.processes) - 1; i >= 0; i-- {
		s.processes[i].Stop(grace)
	}
	s.processes = nil
	os.RemoveAll(s.dir)
}

func (s *server) run(binary string, args ...string) (process, error) {
	started, err := child.Start(s.dir, binary, args...)
	if err != nil {
		return process{}, err
	}
	p := process{started}
	s.processes = append(s.processes, p)
	return p, nil
}

// ready waits for /readyz of a new server, which needs no credentials. It does not verify the
// server's certificate, because that of the peer is not known yet, and the request contains no
// secrets.
func (s *server) ready(ctx context.Context, p process, url string, begin time.Time) error {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	err := p.answers(ctx, &http.Client{Transport: transport}, url+"/readyz")
	s.urls = append(s.urls, url)
	s.readyIn = time.Since(begin)
	return err
}

// startKelson starts a server over the members of etcd, if there are any. Further servers share the
// keys of the first one.
func (o *options) startKelson(ctx context.Context, s *server, etcd []string, begin time.Time) error {
	port, err := child.FreePort()
	if err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data"+strings.Repeat("+", len(s.urls)))
	if len(s.urls) > 0 {
		if err := os.CopyFS(filepath.Join(data, "pki"), os.DirFS(filepath.Join(s.dir, "data", "pki"))); err != nil {
			return err
		}
	}
	kubeconfig := filepath.Join(s.dir, "kubeconfig")
	args := []string{"serve", "--node=none", "--secure-port", port, "--kubeconfig", kubeconfig}
	if s.side.durable {
		args = append(args, "--data-dir", data)
	} else {
		args = append(args, "--in-memory")
	}
	if len(etcd) > 0 {
		args = append(args, "--etcd-servers", strings.Join(etcd, ","))
	}
	p, err := s.run(o.kelson, append(args, o.kelsonArgs...)...)
	if err != nil {
		return err
	}
	if err := s.ready(ctx, p, "https://127.0.0.1:"+port, begin); err != nil {
		return err
	}
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return err
	}
	current := config.Contexts[config.CurrentContext]
	user, cluster := config.AuthInfos[current.AuthInfo], config.Clusters[current.Cluster]
	s.tls, err = clientTLS(user.ClientCertificateData, user.ClientKeyData, cluster.CertificateAuthorityData)
	return err
}

// startEtcd starts the members of the side's etcd cluster, and returns their URLs for clients.
func (o *options) startEtcd(s *server) (clients []string, err error) {
	var peers, cluster []string
	for i := range s.side.members {
		client, err := child.FreePort()
		if err != nil {
			return nil, err
		}
		peer, err := child.FreePort()
		if err != nil {
			return nil, err
		}
		clients, peers = append(clients, "http://127.0.0.1:"+client), append(peers, "http://127.0.0.1:"+peer)
		cluster = append(cluster, fmt.Sprintf("m%d=%s", i, peers[i]))
	}
	for i := range s.side.members {
		args := []string{"--name", fmt.Sprintf("m%d", i), "--data-dir", filepath.Join(s.dir, fmt.Sprintf("etcd%d", i)),
			"--listen-client-urls", clients[i], "--advertise-client-urls", clients[i], "--listen-peer-urls", peers[i],
			"--initial-advertise-peer-urls", peers[i], "--initial-cluster", strings.Join(cluster, ","),
			"--log-level", "error"}
		if !s.side.durable {
			args = append(args, "--unsafe-no-fsync")
		}
		if _, err := s.run(filepath.Join(o.peers, "etcd"), args...); err != nil {
			return nil, err
		}
	}
	return clients, nil
}

// startPeer starts a kube-apiserver over the members of etcd.
func (o *options) startPeer(ctx context.Context, s *server, etcd []string, begin time.Time) error {
	port, err := child.FreePort()
	if err != nil {
		return err
	}
	file := func(name string) string { return filepath.Join(s.dir, name) }
	// Service accounts would need a controller for their tokens; envtest disables them, too.
	p, err := s.run(filepath.Join(o.peers, "kube-apiserver"),
		"--etcd-servers", strings.Join(etcd, ","), "--bind-address", "127.0.0.1", "--secure-port", port,
		"--authorization-mode", "RBAC",
		"--tls-cert-file", file("server.crt"), "--tls-private-key-file", file("server.key"), "--client-ca-file",
		file("ca.crt"),
		"--service-cluster-ip-range", "10.0.0.0/24", "--disable-admission-plugins", "ServiceAccount",
		"--service-account-issuer", "https://localhost",
		"--service-account-key-file", file("sa.key"), "--service-account-signing-key-file", file("sa.key"))
	if err != nil {
		return err
	}
	return s.ready(ctx, p, "https://127.0.0.1:"+port, begin)
}

// writeKeys creates the peer's authority, and the keys of the server and the administrator.
func (s *server) writeKeys() error {
	authority, err := pki.NewAuthority("figures")
	if err != nil {
		return err
	}
	serving, err := authority.Server("127.0.0.1", "localhost")
	if err != nil {
		return err
	}
	admin, err := authority.Client("admin", "system:masters")
	if err != nil {
		return err
	}
	if _, err := pki.OpenKey(filepath.Join(s.dir, "sa.key")); err != nil {
		return err
	}
	for name, data := range map[string][]byte{"ca.crt": authority.PEM, "server.crt": serving.CertPEM,
		"server.key": serving.KeyPEM} {
		if err := os.WriteFile(filepath.Join(s.dir, name), data, 0o600); err != nil {
			return err
		}
	}
	s.tls, err = clientTLS(admin.CertPEM, admin.KeyPEM, authority.PEM)
	return err
}

func clientTLS(cert, key, authority []byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots}, nil
}

// usage returns what all processes of the side use.
func (s *server) usage() (all child.Usage, err error) {
	for _, p := range s.processes {
		u, err := p.usage()
		if err != nil {
			return all, err
		}
		all = all.Plus(u)
	}
	return all, nil
}

// cpu returns the processor time of all processes of the side.
func (s *server) cpu() (time.Duration, error) {
	u, err := s.usage()
	return u.CPU, err
}
