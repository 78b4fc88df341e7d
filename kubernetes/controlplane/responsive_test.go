package controlplane_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// browser is a user's client over HTTPS, with its own connections.
func (s *site) browser(t testing.TB, name string, groups ...string) *http.Client {
	t.Helper()
	pair := certified(t, s.ca, name, groups...)
	certificate, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	require.NoError(t, err)
	transport := &http.Transport{ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{RootCAs: s.ca.Pool(), Certificates: []tls.Certificate{certificate}}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// code sends a request and returns the status code, or 0 if the connection was aborted.
func (s *site) code(ctx context.Context, c *http.Client, method, path, media string, body io.Reader) int {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		return -1
	}
	req.Header.Set("Content-Type", media)
	resp, err := c.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// While one client exceeds a limit as often as it can, other clients are served.
func TestOtherClientsAreServed(t *testing.T) {
	s := onPort(t, controlplane.Config{Controllers: controlplane.NoControllers{}})
	mallory, ann := s.browser(t, "mallory", user.SystemPrivilegedGroup), s.browser(t, "ann", user.SystemPrivilegedGroup)
	const (
		path   = "/api/v1/namespaces/default/configmaps"
		object = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`
		asJSON = "application/json"
	)
	if code := s.code(t.Context(), ann, "POST", path, asJSON, strings.NewReader(object)); code != http.StatusCreated {
		t.Fatal(code)
	}
	operation := `{"op":"test","path":"/kind","value":"ConfigMap"}`
	for _, test := range []struct {
		name, method, path, media, body, header string
		code                                    int
	}{
		{"body", "POST", path, asJSON, strings.Repeat(" ", 3<<20+1), "", 413},
		{"depth", "POST", path, asJSON, `{"data":` + nestedJSON(500_000, "1") + `}`, "", 400},
		{"depth of YAML", "POST", path, "application/yaml", strings.Repeat("[", 400_000), "", 400},
		{"nodes of YAML", "POST", path, "application/yaml", strings.Repeat("[", 3_000_000), "", 413},
		{"aliases", "POST", path, "application/yaml", billionLaughs(), "", 400},
		{"width", "POST", path, "application/cbor", "\xd9\xd9\xf7\x9b\x7f\xff\xff\xff\xff\xff\xff\xff\x01", "", 400},
		{"operations", "PATCH", path + "/c", "application/json-patch+json",
			"[" + strings.Repeat(operation+",", 10_000) + operation + "]", "", 413},
		{"headers", "GET", path, asJSON, "", strings.Repeat("x", 2<<20), 431},
	} {
		t.Run(test.name, func(t *testing.T) {
			var attack sync.WaitGroup
			for range 2 {
				attack.Go(func() {
					for range 3 {
						req, err := http.NewRequestWithContext(t.Context(), test.method, s.url+test.path,
							strings.NewReader(test.body))
						if err != nil {
							t.Error(err)
							return
						}
						req.Header.Set("Content-Type", test.media)
						if test.header != "" {
							req.Header.Set("X-Large", test.header)
						}
						resp, err := mallory.Do(req)
						if err != nil {
							// the client got the status, or the connection ended while it wrote
							continue
						}
						resp.Body.Close()
						if resp.StatusCode != test.code {
							t.Errorf("%s, want %d", resp.Status, test.code)
						}
					}
				})
			}
			over := make(chan struct{})
			go func() { attack.Wait(); close(over) }()
			for served := 0; ; served++ {
				select {
				case <-over:
					if served == 0 {
						t.Error("no other client was served")
					}
					return
				default:
				}
				if code := s.code(t.Context(), ann, "GET", path+"/c", asJSON, nil); code != http.StatusOK {
					t.Fatalf("GET: %d", code)
				}
				if code := s.code(t.Context(), ann, "PATCH", path+"/c", "application/merge-patch+json",
					strings.NewReader(fmt.Sprintf(`{"data":{"n":"%d"}}`, served))); code != http.StatusOK {
					t.Fatalf("PATCH: %d", code)
				}
			}
		})
	}
}

// A client at its limit of watches cannot open more; other users and administrators can.
func TestManyWatchesOfOneClient(t *testing.T) {
	const most = 50
	s := onPort(t, controlplane.Config{Controllers: controlplane.NoControllers{}, Limits: controlplane.Limits{LongRunningPerUser: most}})
	admin := client(s.ControlPlane, "root", user.SystemPrivilegedGroup)
	for _, name := range []string{"mallory", "ann"} {
		_, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(),
			clusterBinding(name, "cluster-admin", name), createOpts)
		require.NoError(t, err)
	}
	var watches sync.WaitGroup
	// watch starts a watch that lasts until ctx ends, and returns the status code immediately.
	watch := func(ctx context.Context, c *http.Client) int {
		req, err := http.NewRequestWithContext(ctx, "GET", s.url+"/api/v1/configmaps?watch=true&timeoutSeconds=600",
			nil)
		require.NoError(t, err)
		resp, err := c.Do(req)
		require.NoError(t, err)
		watches.Go(func() {
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body)
		})
		return resp.StatusCode
	}
	mallory, ann, root := s.browser(t, "mallory"), s.browser(t, "ann"), s.browser(t, "root", user.SystemPrivilegedGroup)
	all, cancel := context.WithCancel(t.Context())
	for range most {
		if code := watch(all, mallory); code != http.StatusOK {
			t.Fatalf("a watch: %d", code)
		}
	}
	if code := watch(all, mallory); code != http.StatusTooManyRequests {
		t.Errorf("a watch beyond the limit: %d", code)
	}
	if code := s.code(t.Context(), mallory, "GET", "/api/v1/configmaps", "", nil); code != http.StatusOK {
		t.Errorf("a list: %d", code)
	}
	others, end := context.WithCancel(t.Context())
	for name, c := range map[string]*http.Client{"ann": ann, "root": root} {
		if code := watch(others, c); code != http.StatusOK {
			t.Errorf("a watch of %s: %d", name, code)
		}
	}
	cancel()
	for code := 0; code != http.StatusOK; { // until the server has noticed their end
		code = watch(others, mallory)
	}
	end()
	watches.Wait()
}

// Requests whose bodies never arrive take no seats: reads, watches and writes of any user are still
// served.
func TestUnsentBodiesTakeNoSeats(t *testing.T) {
	s := onPort(t, controlplane.Config{Controllers: controlplane.NoControllers{},
		Limits: controlplane.Limits{InFlight: 2, MutatingInFlight: 2, NoPriorityAndFairness: true}})
	root := s.browser(t, "root", user.SystemPrivilegedGroup)
	admin := client(s.ControlPlane, "root", user.SystemPrivilegedGroup)
	_, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(),
		clusterBinding("all", "cluster-admin", "mallory"), createOpts)
	require.NoError(t, err)
	mallory := s.browser(t, "mallory")
	const path = "/api/v1/namespaces/default/configmaps"
	object := func(name string) io.Reader {
		return strings.NewReader(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"` + name + `-"}}`)
	}
	var held sync.WaitGroup
	var ends []*io.PipeWriter
	for range 6 {
		body, end := io.Pipe()
		ends = append(ends, end)
		held.Go(func() { s.code(t.Context(), mallory, "POST", path, "application/json", body) })
	}
	// until waits until the server executes the given number of writes. Its own requests take no
	// seats.
	until := func(want int) {
		t.Helper()
		line := fmt.Sprintf("apiserver_current_inflight_requests{request_kind=\"mutating\"} %d\n", want)
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
			resp, err := root.Get(s.url + "/metrics")
			require.NoError(t, err)
			text := require.Body(t, resp)
			if strings.Contains(string(text), line) {
				return
			}
		}
		t.Fatalf("never reached %d concurrent writes", want)
	}
	until(0)
	if code := s.code(t.Context(), mallory, "POST", path, "application/json",
		object("more")); code != http.StatusCreated {
		t.Errorf("one more write: %d", code)
	}
	if code := s.code(t.Context(), mallory, "GET", path, "", nil); code != http.StatusOK {
		t.Errorf("reading: %d", code)
	}
	if code := s.code(t.Context(), mallory, "GET", path+"?watch=true&timeoutSeconds=1&resourceVersion=0", "",
		nil); code != http.StatusOK {
		t.Errorf("watching: %d", code)
	}
	if code := s.code(t.Context(), root, "POST", path, "application/json", object("root")); code != http.StatusCreated {
		t.Errorf("an administrator: %d", code)
	}
	for _, end := range ends {
		end.CloseWithError(io.ErrUnexpectedEOF)
	}
	held.Wait()
	until(0) // the server has noticed the end
	if code := s.code(t.Context(), mallory, "POST", path, "application/json",
		object("more")); code != http.StatusCreated {
		t.Errorf("afterwards: %d", code)
	}
}
