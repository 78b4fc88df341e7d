package controlplane_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/filters"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

const (
	wardle       = "wardle.example.com"
	wardlePath   = "/apis/wardle.example.com/v1alpha1"
	wardleName   = "v1alpha1.wardle.example.com"
	flunders     = wardlePath + "/namespaces/default/flunders"
	aggregatedV2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	wardleV2     = `{"swagger":"2.0","info":{"title":"wardle","version":"1"},"paths":{
		"/apis/wardle.example.com/v1alpha1/flunders":{"get":{"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/example.Flunder"}}}}},
		"/api/v1/pods":{"get":{"responses":{"200":{"description":"not ours"}}}}},
		"definitions":{"example.Flunder":{"type":"object","properties":{"metadata":{"$ref":"#/definitions/io.k8s.api.core.v1.Pod"}},
			"x-kubernetes-group-version-kind":[{"group":"wardle.example.com","version":"v1alpha1","kind":"Flunder"}]},
			"io.k8s.api.core.v1.Pod":{"type":"object","description":"not Kubernetes' Pod"},"unused":{"type":"object"}}}`
)

// Requests on the group version of an APIService reach its server as the requesting user.
func TestAggregation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, controlplane.Config{})
		c.get(flunders, http.StatusNotFound)
		c.serve("wardle", "wardle.default.svc", &api{group: wardle, version: "v1alpha1", openAPI: wardleV2})
		c.register(wardle, "v1alpha1", "wardle")
		c.wantAvailable(wardleName, "True", "Passed", "all checks passed")

		// This server sets the headers with the user; it drops those that the client sends.
		ann := &user.DefaultInfo{Name: "ann", UID: "7", Groups: []string{"cooks", "guests"},
			Extra: map[string][]string{"example.com/Scope": {"a", "b"}}}
		if code, answer := ask(t, c.plane, ann, "GET", flunders, ""); code != http.StatusForbidden {
			t.Errorf("without permission: %d %s", code, answer)
		}
		c.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"fl"},
			"rules":[{"apiGroups":["wardle.example.com"],"resources":["flunders"],"verbs":["list"]}]}`)
		c.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding",
			"metadata":{"name":"fl"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"fl"},
			"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"ann"}]}`)
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://plane"+flunders+"?limit=5&x=%2F", nil)
		require.NoError(t, err)
		for name, value := range map[string]string{
			"X-Remote-User": "root", "X-Remote-Uid": "0", "X-Remote-Group": "system:masters",
			"X-Remote-Extra-Other": "x", "Authorization": "Bearer t", "X-Mine": "kept",
		} {
			req.Header.Set(name, value)
		}
		resp, err := c.plane.TransportAs(ann).RoundTrip(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		var got struct {
			Path, Query string
			Header      http.Header
		}
		if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || got.Path != flunders ||
			got.Query != "limit=5&x=%2F" {
			t.Errorf("%s: %+v, %v", resp.Status, got, err)
		}
		for name, want := range map[string][]string{
			"X-Remote-User": {"ann"}, "X-Remote-Uid": {"7"},
			"X-Remote-Group":                     {"cooks", "guests", "system:authenticated"},
			"X-Remote-Extra-Example.com%2fscope": {"a", "b"}, "X-Remote-Extra-Other": nil, "Authorization": nil,
			"X-Mine": {"kept"},
		} {
			if !slices.Equal(got.Header[name], want) {
				t.Errorf("the server got %s: %q, want %q", name, got.Header[name], want)
			}
		}

		for name, want := range map[string]bool{"Cache-Control": true, "X-Kubernetes-Pf-Flowschema-Uid": false} {
			if values := resp.Header[name]; len(values) != 1 || (values[0] == "backend") != want {
				t.Errorf("the response has %s: %q", name, values)
			}
		}

		// The documents contain the group until the APIService is deleted.
		wantGroups(c, true)
		if code, answer := ask(t, c.plane, root, "DELETE", apiServicesPath+"/"+wardleName, ""); code != http.StatusOK {
			t.Fatalf("%d %s", code, answer)
		}
		synctest.Wait()
		wantGroups(c, false)
		c.get(flunders, http.StatusNotFound)
		c.get(wardlePath, http.StatusNotFound)
	})
}

// wantGroups checks that all documents contain the group, and nothing else from its server.
func wantGroups(c *cluster, present bool) {
	c.Helper()
	want := func(what string, contains bool) {
		c.Helper()
		if contains != present {
			c.Errorf("%s: contains the group: %v", what, contains)
		}
	}
	var legacy metav1.APIGroupList
	c.document("/apis", "application/json", &legacy)
	at := slices.IndexFunc(legacy.Groups, func(g metav1.APIGroup) bool { return g.Name == wardle })
	want("/apis", at >= 0)
	if present {
		last := legacy.Groups[len(legacy.Groups)-1]
		if last.Name != wardle || last.PreferredVersion.Version != "v1alpha1" {
			c.Errorf("the last group is %+v", last)
		}
	}
	code, _ := ask(c, c.plane, root, "GET", "/apis/"+wardle, "")
	want("/apis/"+wardle, code == http.StatusOK)
	if found := find(c); found != nil || !present {
		want("aggregated /apis", found != nil)
		if present && (found.Freshness != apidiscoveryv2.DiscoveryFreshnessCurrent || len(found.Resources) != 1 ||
			found.Resources[0].Resource != "flunders" || found.Resources[0].ShortNames[0] != "fl" ||
			found.Resources[0].ResponseKind.Group != wardle ||
			len(found.Resources[0].Subresources) != 1 || found.Resources[0].Subresources[0].Subresource != "status") {
			c.Errorf("aggregated /apis: %+v", found)
		}
	}
	var index struct{ Paths map[string]any }
	c.document("/openapi/v3", "application/json", &index)
	want("/openapi/v3", index.Paths["apis/wardle.example.com/v1alpha1"] != nil)
	var v2 struct {
		Paths, Definitions map[string]json.RawMessage
	}
	c.document("/openapi/v2", "application/json", &v2)
	_, path := v2.Paths[wardlePath+"/flunders"]
	want("paths of /openapi/v2", path)
	_, definition := v2.Definitions["example.Flunder"]
	want("definitions of /openapi/v2", definition)
	if strings.Contains(string(v2.Paths["/api/v1/pods"]), "not ours") {
		c.Error("/openapi/v2: a server changed the path of another")
	}
	if strings.Contains(string(v2.Definitions["io.k8s.api.core.v1.Pod"]), "not Kubernetes") {
		c.Error("/openapi/v2: a server changed the definition of another")
	}
	if present && !strings.Contains(string(v2.Definitions["example.Flunder"]),
		"#/definitions/io.k8s.api.core.v1.Pod_v2") {
		c.Errorf("/openapi/v2: %s", v2.Definitions["example.Flunder"])
	}
	if present {
		var v3 struct {
			Components struct{ Schemas map[string]any }
		}
		c.document("/openapi/v3/apis/wardle.example.com/v1alpha1", "application/json", &v3)
		if v3.Components.Schemas["example.Flunder"] == nil {
			c.Errorf("/openapi/v3/apis/wardle.example.com/v1alpha1: %v", v3)
		}
	}
}

// find returns the group version of wardle in the aggregated discovery document, or nil.
func find(c *cluster) *apidiscoveryv2.APIVersionDiscovery {
	c.Helper()
	var list apidiscoveryv2.APIGroupDiscoveryList
	c.document("/apis", aggregatedV2, &list)
	for _, g := range list.Items {
		if g.Name == wardle {
			return &g.Versions[0]
		}
	}
	return nil
}

// The condition Available has kube-aggregator's reasons, and requests get 503 until it is True.
func TestAvailability(t *testing.T) {
	service := func(more string) string {
		return `{"apiVersion":"v1","kind":"Service","metadata":{"name":"wardle"},"spec":{` + more +
			`"ports":[{"port":443,"targetPort":8443}]}}`
	}
	slice := func(ready bool) string {
		return fmt.Sprintf(`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"wardle-1","labels":{"kubernetes.io/service-name":"wardle"}},
			"addressType":"IPv4","ports":[{"name":"","port":8443}],"endpoints":[{"addresses":["10.1.2.3"],"conditions":{"ready":%v}}]}`, ready)
	}
	const address = "10.1.2.3:8443"
	good := &api{group: wardle, version: "v1alpha1"}
	for _, test := range []struct {
		name            string
		service, slice  string
		host            string       // of the certificate; "" means that no server listens
		handler         http.Handler // nil: good
		status          string
		reason, message string
	}{
		{name: "no service", status: "False", reason: "ServiceNotFound",
			message: `service/wardle in "default" is not present`},
		{name: "other port", service: strings.Replace(service(""), `"port":443`, `"port":444`, 1), status: "False",
			reason:  "ServicePortError",
			message: `service/wardle in "default" is not listening on port 443`},
		{name: "no endpoints", service: service(""), status: "False", reason: "EndpointsNotFound",
			message: `cannot find endpointslices for service/wardle in "default"`},
		{name: "no ready endpoint", service: service(""), slice: slice(false), status: "False",
			reason:  "MissingEndpoints",
			message: `endpointslices for service/wardle in "default" have no addresses with port name ""`},
		{name: "endpoints without addresses", service: service(""),
			slice: strings.Replace(slice(true), `"endpoints":[{"addresses":["10.1.2.3"],"conditions":{"ready":true}}]`,
				`"endpoints":[]`, 1),
			status: "False", reason: "MissingEndpoints",
			message: `endpointslices for service/wardle in "default" have no addresses with port name ""`},
		{name: "endpoints of another port", service: service(""),
			slice:  strings.Replace(slice(true), `"name":""`, `"name":"other"`, 1),
			status: "False", reason: "MissingEndpoints",
			message: `endpointslices for service/wardle in "default" have no addresses with port name ""`},
		{name: "not modified", service: service(""), slice: slice(true), host: "wardle.default.svc",
			handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusNotModified)
			}),
			status: "False", reason: "FailedDiscoveryCheck",
			message: "bad status from https://10.1.2.3:8443/apis/wardle.example.com/v1alpha1: 304"},
		{name: "no server", service: service(""), slice: slice(true), status: "False", reason: "FailedDiscoveryCheck",
			message: `failing or missing response from https://10.1.2.3:8443/apis/wardle.example.com/v1alpha1: Get "https://10.1.2.3:8443/apis/wardle.example.com/v1alpha1": connection refused`},
		{name: "wrong certificate", service: service(""), slice: slice(true), host: "other.default.svc",
			status: "False", reason: "FailedDiscoveryCheck",
			message: "x509: certificate is valid for other.default.svc, not wardle.default.svc"},
		{name: "wrong group", service: service(""), slice: slice(true), host: "wardle.default.svc",
			handler: &api{group: "other.example.com", version: "v1alpha1"},
			status:  "False", reason: "FailedDiscoveryCheck",
			message: "bad status from https://10.1.2.3:8443/apis/wardle.example.com/v1alpha1: 404"},
		{name: "group of another", service: service(""), slice: slice(true), host: "wardle.default.svc",
			handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				io.WriteString(w, `{"kind":"APIResourceList","groupVersion":"other.example.com/v1","resources":[]}`)
			}),
			status: "False", reason: "FailedDiscoveryCheck",
			message: `it describes group version "other.example.com/v1" instead of "wardle.example.com/v1alpha1"`},
		{name: "endless document", service: service(""), slice: slice(true), host: "wardle.default.svc",
			handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				for req.Context().Err() == nil {
					if _, err := w.Write(make([]byte, 64<<10)); err != nil {
						return
					}
				}
			}),
			status: "False", reason: "FailedDiscoveryCheck",
			message: "the response is too large: limit is 1048576 bytes"},
		{name: "redirect", service: service(""), slice: slice(true), host: "wardle.default.svc",
			handler: http.RedirectHandler("https://elsewhere.example.com", http.StatusFound),
			status:  "False", reason: "FailedDiscoveryCheck",
			message: "bad status from https://10.1.2.3:8443/apis/wardle.example.com/v1alpha1: 302"},
		{name: "no document", service: service(""), slice: slice(true), host: "wardle.default.svc",
			handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), status: "True", reason: "Passed",
			message: "all checks passed"},
		{name: "good", service: service(""), slice: slice(true), host: "wardle.default.svc", status: "True",
			reason: "Passed", message: "all checks passed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, controlplane.Config{Controllers: controlplane.NoControllers{}})
				if test.handler == nil {
					test.handler = good
				}
				if test.host != "" {
					c.listen(address, test.host, test.handler)
				}
				if test.service != "" {
					c.create("/api/v1/namespaces/default/services", test.service)
				}
				if test.slice != "" {
					c.create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", test.slice)
				}
				c.register(wardle, "v1alpha1", "wardle")
				c.wantAvailable(wardleName, test.status, test.reason, test.message)
				found := find(c)
				if current := found.Freshness == apidiscoveryv2.DiscoveryFreshnessCurrent; current != (test.name == "good") {
					t.Errorf("discovery shows %+v", found)
				}
				if test.status != "True" {
					if answer := c.get(flunders, http.StatusServiceUnavailable); answer != "service unavailable\n" {
						t.Errorf("%q", answer)
					}
				}
				if test.name != "no endpoints" {
					return
				}
				// The backend is checked again when its endpoints change, and every 30 seconds.
				c.listen(address, "wardle.default.svc", good)
				c.create("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice(true))
				synctest.Wait()
				c.wantAvailable(wardleName, "True", "Passed", "")
				c.get(flunders, http.StatusOK)
				c.mu.Lock()
				old := c.backends[address]
				delete(c.backends, address)
				c.mu.Unlock()
				old.stop()
				time.Sleep(31 * time.Second)
				synctest.Wait()
				c.wantAvailable(wardleName, "False", "FailedDiscoveryCheck", "connection refused")
				if found := find(c); found.Freshness != apidiscoveryv2.DiscoveryFreshnessStale ||
					len(found.Resources) != 1 {
					t.Errorf("discovery of a removed backend: %+v", found)
				}
				c.listen(address, "wardle.default.svc", good)
				time.Sleep(31 * time.Second)
				synctest.Wait()
				c.wantAvailable(wardleName, "True", "Passed", "")
			})
		})
	}
}

// The name of an APIService is its group version, so that each has at most one.
func TestAPIServiceNames(t *testing.T) {
	plane := start(t, controlplane.Config{})
	body := `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"%s"},
		"spec":{"group":"wardle.example.com","version":"v1alpha1","groupPriorityMinimum":2000,"versionPriority":15}}`
	if code, answer := ask(t, plane, root, "POST", apiServicesPath,
		fmt.Sprintf(body, "another")); code != http.StatusUnprocessableEntity ||
		!strings.Contains(answer, `must be `+"`"+`spec.version+\".\"+spec.group`+"`") {
		t.Errorf("%d %s", code, answer)
	}
	for _, want := range []int{http.StatusCreated, http.StatusConflict} {
		if code, answer := ask(t, plane, root, "POST", apiServicesPath, fmt.Sprintf(body, wardleName)); code != want {
			t.Errorf("%d %s, want %d", code, answer, want)
		}
	}
}

// A backend that hangs delays only the requests on its own group version.
func TestHangingBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, controlplane.Config{})
		hangs := false
		hang := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			c.mu.Lock()
			now := hangs
			c.mu.Unlock()
			if now {
				<-req.Context().Done()
				return
			}
			(&api{group: wardle, version: "v1alpha1", openAPI: wardleV2}).ServeHTTP(w, req)
		})
		c.serve("wardle", "wardle.default.svc", hang)
		c.serve("other", "other.default.svc", &api{group: "other.example.com", version: "v1"})
		c.register(wardle, "v1alpha1", "wardle")
		c.register("other.example.com", "v1", "other")
		c.mu.Lock()
		hangs = true
		c.mu.Unlock()
		took := func(what string, want time.Duration, do func()) {
			t.Helper()
			begin := time.Now()
			do()
			if d := time.Since(begin); d != want {
				t.Errorf("%s took %v, want %v", what, d, want)
			}
		}
		others := func() {
			t.Helper()
			took("other requests", 0, func() {
				wantGroups(c, true)
				c.get("/apis/other.example.com/v1", http.StatusOK)
				c.get("/apis/other.example.com/v1/flunders", http.StatusOK)
				c.get("/apis/batch/v1", http.StatusOK)
				c.get("/api/v1/pods", http.StatusOK)
			})
		}
		others()
		took("the document about the group version", 5*time.Second, func() {
			if answer := c.get(wardlePath, http.StatusServiceUnavailable); !strings.Contains(answer,
				"error trying to reach service: context deadline exceeded") {
				t.Error(answer)
			}
		})
		took("a request on the group version", time.Minute, func() {
			if answer := c.get(flunders, http.StatusGatewayTimeout); !strings.Contains(answer, `"reason":"Timeout"`) {
				t.Error(answer)
			}
		})
		synctest.Wait()
		c.wantAvailable(wardleName, "False", "FailedDiscoveryCheck", "context deadline exceeded")
		took("a request while the backend is unavailable", 0, func() { c.get(flunders, http.StatusServiceUnavailable) })
		if found := find(c); found.Freshness != apidiscoveryv2.DiscoveryFreshnessStale || len(found.Resources) != 1 {
			t.Errorf("discovery: %+v", found)
		}
		c.get("/apis/other.example.com/v1/flunders", http.StatusOK)
	})
}

// Backends cannot redirect clients (CVE-2022-3172).
func TestBackendRedirects(t *testing.T) {
	for _, forward := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, controlplane.Config{Aggregation: controlplane.Aggregation{ForwardRedirects: forward}})
			c.serve("wardle", "wardle.default.svc",
				&api{group: wardle, version: "v1alpha1", requests: func(w http.ResponseWriter, req *http.Request) {
					http.Redirect(w, req, "https://elsewhere.example.com/", http.StatusFound)
				}})
			c.register(wardle, "v1alpha1", "wardle")
			if forward {
				c.get(flunders, http.StatusFound)
			} else if answer := c.get(flunders, http.StatusBadGateway); answer != "the backend attempted to redirect this request, which is not permitted" {
				t.Error(answer)
			}
		})
	}
}

// Events of a watch are passed on immediately, and a watch has no deadline.
func TestWatchThroughBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, controlplane.Config{})
		c.serve("wardle", "wardle.default.svc", &api{group: wardle, version: "v1alpha1",
			requests: func(w http.ResponseWriter, req *http.Request) {
				for i := 0; ; i++ {
					fmt.Fprintf(w, `{"type":"ADDED","object":{"metadata":{"name":"%d"}}}`+"\n", i)
					w.(http.Flusher).Flush()
					select {
					case <-time.After(time.Minute):
					case <-req.Context().Done():
						return
					}
				}
			}})
		c.register(wardle, "v1alpha1", "wardle")
		begin := time.Now()
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://plane"+flunders+"?watch=true", nil)
		require.NoError(t, err)
		resp, err := c.plane.TransportAs(root).RoundTrip(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		lines := bufio.NewScanner(resp.Body)
		for i := range 4 {
			if !lines.Scan() || !strings.Contains(lines.Text(), fmt.Sprintf(`"name":"%d"`, i)) ||
				time.Since(begin) != time.Duration(i)*time.Minute {
				t.Errorf("event %d after %v: %s %v", i, time.Since(begin), lines.Text(), lines.Err())
			}
		}
	})
}

// Connections that switch protocols pass through, and outlive the deadline of short requests.
func TestUpgradeThroughBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, controlplane.Config{})
		c.serve("wardle", "wardle.default.svc", &api{group: wardle, version: "v1alpha1",
			requests: func(w http.ResponseWriter, req *http.Request) {
				if req.Header.Get("Upgrade") != "shout" || req.Header.Get("X-Remote-User") != "root" {
					http.Error(w, "no upgrade", http.StatusBadRequest)
					return
				}
				conn, buffered, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n")
				for {
					line, err := buffered.ReadString('\n')
					if err != nil {
						return
					}
					io.WriteString(conn, strings.ToUpper(line))
				}
			}})
		c.register(wardle, "v1alpha1", "wardle")
		front := servePipes(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			c.plane.Handler().ServeHTTP(w, req.WithContext(filters.WithUser(req.Context(), root)))
		}), nil)
		for _, path := range []string{flunders + "/a/vnc", flunders + "/a/exec"} {
			conn, err := front.Dial(t.Context(), "", "")
			require.NoError(t, err)
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: plane\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n", path)
			in := bufio.NewReader(conn)
			resp, err := http.ReadResponse(in, nil)
			if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("%s: %v %v", path, resp, err)
			}
			for _, after := range []time.Duration{0, 5 * time.Minute} {
				time.Sleep(after)
				io.WriteString(conn, "hello\n")
				if line, err := in.ReadString('\n'); line != "HELLO\n" {
					t.Errorf("%s: %q %v after %v", path, line, err, after)
				}
			}
			conn.Close()
		}
	})
}

// sink keeps audit events.
type sink struct {
	mu     sync.Mutex
	events []*auditinternal.Event
}

func (s *sink) ProcessEvents(events ...*auditinternal.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		s.events = append(s.events, e.DeepCopy())
	}
	return true
}

// Proxied requests are recorded like others, and the server gets the ID of the record.
func TestAuditOfBackends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trail := &sink{}
		c := newCluster(t, controlplane.Config{Audit: controlplane.Audit{
			Policy: policy.NewFakePolicyRuleEvaluator(auditinternal.LevelMetadata, nil), Sink: trail,
		}})
		c.serve("wardle", "wardle.default.svc", &api{group: wardle, version: "v1alpha1"})
		c.register(wardle, "v1alpha1", "wardle")
		var got struct{ Header http.Header }
		c.document(flunders+"/a", "application/json", &got)
		trail.mu.Lock()
		defer trail.mu.Unlock()
		i := slices.IndexFunc(trail.events, func(e *auditinternal.Event) bool {
			return e.RequestURI == flunders+"/a" && e.Stage == auditinternal.StageResponseComplete
		})
		if i < 0 {
			t.Fatal("no event")
		}
		e := trail.events[i]
		if e.Verb != "get" || e.User.Username != "root" || e.ResponseStatus.Code != http.StatusOK ||
			e.ObjectRef.APIGroup != wardle ||
			e.ObjectRef.Resource != "flunders" || e.ObjectRef.Name != "a" ||
			got.Header.Get("Audit-Id") != string(e.AuditID) {
			t.Errorf("%+v; the server got the ID %s", e, got.Header.Get("Audit-Id"))
		}
	})
}

// A watch releases its seats when it is passed to a backend, because a backend cannot report when
// it has sent the initial events.
func TestWatchesThroughBackendHoldNoSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, controlplane.Config{Limits: controlplane.Limits{InFlight: 10, MutatingInFlight: 10}})
		c.serve("wardle", "wardle.default.svc", &api{group: wardle, version: "v1alpha1",
			requests: func(w http.ResponseWriter, req *http.Request) {
				if req.URL.Query().Get("watch") != "" {
					w.(http.Flusher).Flush()
					<-req.Context().Done()
				}
			}})
		c.register(wardle, "v1alpha1", "wardle")
		c.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding",
			"metadata":{"name":"ann"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},
			"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"ann"}]}`)
		ann := &user.DefaultInfo{Name: "ann", Groups: []string{user.AllAuthenticated}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		begin := time.Now()
		for range 50 {
			req, err := http.NewRequestWithContext(ctx, "GET", "http://plane"+flunders+"?watch=1", nil)
			require.NoError(t, err)
			resp, err := c.plane.TransportAs(ann).RoundTrip(req)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatal(resp, err)
			}
			defer resp.Body.Close()
		}
		if code, answer := ask(t, c.plane, ann, "GET", "/api/v1/namespaces", ""); code != http.StatusOK ||
			time.Since(begin) != 0 {
			t.Errorf("%d %s after %v", code, answer, time.Since(begin))
		}
	})
}

// The kinds of a backend may change.
func TestBackendChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, controlplane.Config{})
		now, calls := "flunders", 0
		c.serve("wardle", "wardle.default.svc", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			c.mu.Lock()
			defer c.mu.Unlock()
			w.Header().Set("Content-Type", "application/json")
			switch req.URL.Path {
			case wardlePath:
				fmt.Fprintf(w, `{"kind":"APIResourceList","groupVersion":"wardle.example.com/v1alpha1","resources":[{"name":%q,"kind":"K","namespaced":true,"verbs":["get"]}]}`, now)
			case "/openapi/v2":
				etag := `"` + now + `"`
				if w.Header().Set("ETag", etag); req.Header.Get("If-None-Match") == etag {
					w.WriteHeader(http.StatusNotModified)
					return
				}
				calls++
				io.WriteString(w, strings.ReplaceAll(wardleV2, "/flunders", "/"+now))
			case "/openapi/v3":
				fmt.Fprintf(w, `{"paths":{"apis/wardle.example.com/v1alpha1":{"serverRelativeURL":"/openapi/v3/apis/wardle.example.com/v1alpha1?hash=%s"},"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1?hash=lie"}}}`, now)
			case "/openapi/v3/apis/wardle.example.com/v1alpha1":
				fmt.Fprintf(w, `{"openapi":"3.0.0","info":{"title":%q,"version":"1"},"paths":{}}`, now)
			default:
				http.NotFound(w, req)
			}
		}))
		c.register(wardle, "v1alpha1", "wardle")
		want := func(name string) {
			t.Helper()
			if found := find(c); found == nil || len(found.Resources) != 1 || found.Resources[0].Resource != name {
				t.Errorf("discovery: %+v, want %s", found, name)
			}
			if doc := c.get("/openapi/v2", http.StatusOK); !strings.Contains(doc, wardlePath+"/"+name+`"`) {
				t.Errorf("/openapi/v2 has no path of %s", name)
			}
			index := c.get("/openapi/v3", http.StatusOK)
			if !strings.Contains(index, "v1alpha1?hash="+name+`"`) || strings.Contains(index, "hash=lie") {
				t.Errorf("/openapi/v3: want %s: %s", name, index)
			}
			if doc := c.get("/openapi/v3"+wardlePath, http.StatusOK); !strings.Contains(doc, name) {
				t.Errorf("/openapi/v3%s: %s", wardlePath, doc)
			}
		}
		want("flunders")
		time.Sleep(5 * time.Minute)
		c.mu.Lock()
		if calls != 1 {
			t.Errorf("a document that did not change was sent %d times", calls)
		}
		now = "fischers"
		c.mu.Unlock()
		time.Sleep(2 * time.Minute)
		want("fischers")
	})
}
