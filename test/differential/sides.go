package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kelson.dev/test/admission/attributes"
	"kelson.dev/test/child"
	"kelson.dev/test/peers"
)

// side is one of the two servers, with an administrator's client.
type side struct {
	name   string
	url    string
	client *http.Client
	hook   *attributes.Recorder
}

// servers are the processes of both sides.
type servers struct {
	peer, kelson *side
	etcd         string // URL
	processes    []*child.Process
}

// serverFlags are the flags of both sides. They follow envtest, which disables service accounts
// because they need a controller.
func serverFlags(dir string, admission string) []string {
	return []string{
		"--bind-address", "127.0.0.1", "--authorization-mode", "RBAC", "--allow-privileged=true",
		"--tls-cert-file", filepath.Join(dir, "server.crt"), "--tls-private-key-file", filepath.Join(dir, "server.key"),
		"--client-ca-file", filepath.Join(dir, "ca.crt"), "--service-cluster-ip-range", "10.0.0.0/24,fd00::/112",
		"--disable-admission-plugins", admission, "--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-key-file", filepath.Join(dir, "sa.key"), "--service-account-signing-key-file",
		filepath.Join(dir, "sa.key"),
		"--feature-gates", "CBORServingAndStorage=true", // Kelson always supports CBOR
	}
}

// startServers starts etcd, kube-apiserver and Kelson, and waits until both servers are ready.
// Their logs are in dir.
func startServers(ctx context.Context, dir, kelson, binaries, admission string) (_ *servers, err error) {
	s := &servers{}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	tlsConfig, err := writeKeys(dir)
	if err != nil {
		return nil, fmt.Errorf("write keys: %w", err)
	}
	ports, err := child.FreePorts(2)
	if err != nil {
		return nil, err
	}
	etcd, etcdURL, err := peers.Etcd(binaries, dir, "--unsafe-no-fsync")
	if err != nil {
		return nil, err
	}
	s.processes = append(s.processes, etcd)
	s.etcd = etcdURL
	for i, binary := range []string{filepath.Join(binaries, "kube-apiserver"), kelson} {
		port := ports[i]
		args := append(append(serverFlags(dir, admission), auditFlags(dir, filepath.Base(binary))...), "--secure-port",
			port)
		server := &side{name: "kube-apiserver", url: "https://127.0.0.1:" + port, client: newClient(tlsConfig)}
		if server.hook, err = attributes.NewRecorder(); err != nil {
			return nil, err
		}
		if i == 0 {
			args = append(args, "--etcd-servers", etcdURL)
			s.peer = server
		} else {
			server.name = "kelson"
			args = append([]string{"kube-apiserver"}, args...)
			s.kelson = server
		}
		p, err := s.start(dir, binary, args...)
		if err != nil {
			return nil, err
		}
		defer func() {
			if err == nil {
				err = ready(ctx, p, server)
			}
		}()
	}
	return s, nil
}

func newClient(config *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig: config, ForceAttemptHTTP2: true, DisableCompression: true, MaxIdleConnsPerHost: 16,
	}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// writeKeys creates an authority for both sides, with the keys of the servers and the
// administrator.
func writeKeys(dir string) (*tls.Config, error) {
	authority, err := peers.WriteKeys(dir, "differential")
	if err != nil {
		return nil, err
	}
	admin, err := authority.Client("admin", "system:masters")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(peers.WritePair(dir, "admin", admin),
		os.WriteFile(filepath.Join(dir, "audit-policy.json"), []byte(auditPolicy), 0o600)); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(admin.CertPEM, admin.KeyPEM)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: authority.Pool()}, nil
}

func (s *servers) start(dir, binary string, args ...string) (*child.Process, error) {
	p, err := child.Start(dir, binary, args...)
	if err == nil {
		s.processes = append(s.processes, p)
	}
	return p, err
}

// stop stops the processes in reverse order.
func (s *servers) stop() {
	for i := len(s.processes) - 1; i >= 0; i-- {
		s.processes[i].Stop(10 * time.Second)
	}
}

// cpu describes the processor time that the processes used. It must be called after stop.
func (s *servers) cpu() string {
	var texts []string
	for _, p := range s.processes {
		texts = append(texts, fmt.Sprintf("%s %s", filepath.Base(p.Path), p.CPU().Round(time.Second)))
	}
	return strings.Join(texts, ", ")
}

// ready waits until a server is ready and has created the initial objects that streams rely on.
func ready(ctx context.Context, p *child.Process, s *side) error {
	return p.Await(ctx, time.Minute, func(ctx context.Context) error {
		for _, path := range []string{"/readyz", "/api/v1/namespaces/default", "/api/v1/namespaces/kube-node-lease",
			"/api/v1/namespaces/default/services/kubernetes", "/apis/apiregistration.k8s.io/v1/apiservices/v1.batch"} {
			if !s.found(ctx, path) {
				return fmt.Errorf("%s%s is not there", s.url, path)
			}
		}
		return nil
	})
}

// compact removes all states before the current one from etcd, as kube-apiserver does every five
// minutes, so that the response to a request for such a state does not depend on the time.
func (s *servers) compact(ctx context.Context) error {
	var state struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	if err := s.askEtcd(ctx, "/v3/kv/range", `{"key":"AA=="}`, &state); err != nil {
		return err
	}
	return s.askEtcd(ctx, "/v3/kv/compaction", `{"revision":"`+state.Header.Revision+`","physical":true}`, &state)
}

// askEtcd calls etcd's JSON API.
func (s *servers) askEtcd(ctx context.Context, path, body string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.etcd+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask etcd: %w", err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, data)
	}
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return fmt.Errorf("etcd %s: %w", path, err)
	}
	return nil
}

func (s *side) found(ctx context.Context, path string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return false
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode == http.StatusOK
}
