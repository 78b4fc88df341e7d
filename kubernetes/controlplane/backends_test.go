package controlplane_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/pki"
	"kelson.dev/internal/pipes"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// backend is a server within the process.
type backend struct {
	*pipes.Listener
	stop func() // may be called more than once
}

// servePipes serves a handler on connections within the process until the test ends; certificate
// nil means without TLS.
func servePipes(t *testing.T, handler http.Handler, certificate *tls.Config) *backend {
	l, stop := pipes.Serve(handler, certificate)
	t.Cleanup(stop)
	return &backend{l, stop}
}

// cluster is a control plane with API servers behind it, all in one process. It must be created in
// a synctest bubble.
type cluster struct {
	*testing.T
	plane     *controlplane.ControlPlane
	authority *pki.Authority // of the serving certificates of backends
	front     *pki.Authority // of the control plane's client certificate for backends

	mu       sync.Mutex
	backends map[string]*backend // by host:port
}

var root = &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}

func newCluster(t *testing.T, cfg controlplane.Config) *cluster {
	t.Helper()
	c := &cluster{T: t, authority: newAuthority(t, "backends"), front: newAuthority(t, "front-proxy"),
		backends: map[string]*backend{}}
	pair, err := c.front.Client("aggregator")
	require.NoError(t, err)
	certificate, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	require.NoError(t, err)
	cfg.Aggregation.ProxyClient = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &certificate, nil
	}
	cfg.Aggregation.Dial = func(ctx context.Context, _, address string) (net.Conn, error) {
		c.mu.Lock()
		p := c.backends[address]
		c.mu.Unlock()
		if p == nil {
			return nil, errors.New("connection refused")
		}
		return p.Dial(ctx, "", address)
	}
	c.plane = start(t, cfg)
	return c
}

// serve makes handler reachable at <name>.example:443, with a certificate for host and the Service
// <name>, whose annotation names that URL.
func (c *cluster) serve(name, host string, handler http.Handler) {
	c.Helper()
	c.listen(name+".example:443", host, handler)
	c.create("/api/v1/namespaces/default/services", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"`+name+`",
		"annotations":{"kelson.dev/url":"https://`+name+`.example"}},"spec":{"ports":[{"port":443}]}}`)
}

// listen makes handler reachable at an address, with a certificate for host. It requires the
// control plane's certificate.
func (c *cluster) listen(address, host string, handler http.Handler) {
	c.Helper()
	pair, err := c.authority.Server(host)
	require.NoError(c, err)
	certificate, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	require.NoError(c, err)
	p := servePipes(c.T, handler, &tls.Config{
		Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs:  c.front.Pool(),
		NextProtos: []string{"h2", "http/1.1"},
	})
	c.mu.Lock()
	c.backends[address] = p
	c.mu.Unlock()
}

// register creates an APIService for a Service of the namespace default and waits until the control
// plane has checked it.
func (c *cluster) register(group, version, service string) {
	c.Helper()
	c.create(apiServicesPath, fmt.Sprintf(`{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"%[2]s.%[1]s"},
		"spec":{"group":%[1]q,"version":%[2]q,"groupPriorityMinimum":2000,"versionPriority":15,"caBundle":%[4]q,
		"service":{"namespace":"default","name":%[3]q}}}`, group, version, service, base64.StdEncoding.EncodeToString(c.authority.PEM)))
	synctest.Wait()
}

const apiServicesPath = "/apis/apiregistration.k8s.io/v1/apiservices"

func (c *cluster) create(path, body string) {
	c.Helper()
	if code, answer := ask(c, c.plane, root, "POST", path, body); code != http.StatusCreated {
		c.Fatalf("POST %s: %d %s", path, code, answer)
	}
}

// get sends a GET request as an administrator and compares the status code.
func (c *cluster) get(path string, want int) string {
	c.Helper()
	code, answer := ask(c, c.plane, root, "GET", path, "")
	if code != want {
		c.Errorf("GET %s: %d %s, want %d", path, code, answer, want)
	}
	return answer
}

// document decodes a response with an Accept header.
func (c *cluster) document(path, accept string, into any) {
	c.Helper()
	req, err := http.NewRequestWithContext(c.Context(), http.MethodGet, "http://plane"+path, nil)
	require.NoError(c, err)
	req.Header.Set("Accept", accept)
	resp, err := c.plane.TransportAs(root).RoundTrip(req)
	require.NoError(c, err)
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		c.Fatalf("GET %s: %s: %v", path, resp.Status, err)
	}
}

// available returns status, reason and message of the condition Available.
func (c *cluster) available(name string) (status, reason, message string) {
	c.Helper()
	var service struct {
		Status struct {
			Conditions []struct{ Type, Status, Reason, Message string }
		}
	}
	c.document(apiServicesPath+"/"+name, "application/json", &service)
	for _, condition := range service.Status.Conditions {
		if condition.Type == "Available" {
			return condition.Status, condition.Reason, condition.Message
		}
	}
	return "", "", ""
}

func (c *cluster) wantAvailable(name, status, reason, message string) {
	c.Helper()
	s, r, m := c.available(name)
	if s != status || r != reason || !strings.Contains(m, message) {
		c.Errorf("%s: %s %s %q, want %s %s %q", name, s, r, m, status, reason, message)
	}
}

// api is an API server with one kind. It answers requests on resources with what it received.
type api struct {
	group, version string
	openAPI        string // the v2 document; "" means none
	requests       func(w http.ResponseWriter, req *http.Request)
}

func (a *api) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	switch root := "/apis/" + a.group + "/" + a.version; {
	case req.URL.Path == root:
		fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"%s/%s","resources":[
			{"name":"flunders","singularName":"flunder","namespaced":true,"kind":"Flunder","verbs":["get","list","create"],"shortNames":["fl"]},
			{"name":"flunders/status","namespaced":true,"kind":"Flunder","verbs":["get"]}]}`, a.group, a.version)
	case strings.HasPrefix(req.URL.Path, root+"/") && a.requests != nil:
		a.requests(w, req)
	case strings.HasPrefix(req.URL.Path, root+"/"):
		for _, name := range []string{"Audit-Id", "Cache-Control", "X-Kubernetes-Pf-Flowschema-Uid"} {
			w.Header().Set(name, "backend")
		}
		json.NewEncoder(w).Encode(map[string]any{"path": req.URL.Path, "query": req.URL.RawQuery, "header": req.Header,
			"method": req.Method})
	case req.URL.Path == "/openapi/v2" && a.openAPI != "":
		io.WriteString(w, a.openAPI)
	default:
		http.NotFound(w, req)
	}
}
