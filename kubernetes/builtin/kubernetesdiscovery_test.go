package builtin_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/discovery"
	"kelson.dev/apiserver/resource"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/builtin"
)

func newHandler(t testing.TB) (*discovery.Handler, *resource.Registry) {
	t.Helper()
	return newHandlerOf(t, nil)
}

func newHandlerOf(t testing.TB, apis *builtin.APIs) (*discovery.Handler, *resource.Registry) {
	t.Helper()
	kinds, err := builtin.Resources(builtin.Config{APIs: apis})
	require.NoError(t, err)
	registry := resource.NewRegistry(kinds...)
	return discovery.New(discovery.Config{Registry: registry, Priorities: builtin.Priorities}), registry
}

func get(t testing.TB, h http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, "http://plane:6443"+path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

func parse[T any](t testing.TB, data []byte) T {
	t.Helper()
	var out T
	require.NoErrorf(t, json.Unmarshal(data, &out), "%.200s", data)
	return out
}

// documents reads Kubernetes' own discovery documents from its module.
func documents(t testing.TB) func(name string) []byte {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	require.NoError(t, err)
	return func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "api", "discovery", name))
		require.NoError(t, err)
		return data
	}
}

const (
	aggregatedV2      = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	aggregatedV2beta1 = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
)

// Discovery describes the served kinds exactly as kube-apiserver does, and in its order.
func TestDiscoveryMatchesKubernetes(t *testing.T) {
	all, err := builtin.ParseAPIs(map[string]string{"api/all": "true"})
	require.NoError(t, err)
	for _, apis := range []*builtin.APIs{nil, all} {
		h, _ := newHandlerOf(t, apis)
		compareDocuments(t, h)
	}
}

func compareDocuments(t *testing.T, h *discovery.Handler) {
	t.Helper()
	upstream := documents(t)

	want := parse[metav1.APIGroupList](t, upstream("apis.json"))
	var order []string
	for _, g := range want.Groups {
		order = append(order, g.Name)
	}
	last := -1
	groups := parse[metav1.APIGroupList](t, get(t, h, "/apis").Body.Bytes())
	if groups.Kind != "APIGroupList" || groups.APIVersion != "v1" || len(groups.Groups) < 5 {
		t.Errorf("%s %s with %d groups", groups.APIVersion, groups.Kind, len(groups.Groups))
	}
	for _, g := range groups.Groups {
		i := slices.Index(order, g.Name)
		if i <= last {
			t.Errorf("group %s is at the wrong position", g.Name)
		}
		last = i
		for _, v := range g.Versions {
			name := "apis__" + g.Name + "__" + v.Version + ".json"
			compareLists(t, get(t, h, "/apis/"+v.GroupVersion).Body.Bytes(), upstream(name))
		}
		if alone := parse[metav1.APIGroup](t, get(t, h, "/apis/"+g.Name).Body.Bytes()); alone.PreferredVersion != g.PreferredVersion || alone.Kind != "APIGroup" {
			t.Errorf("/apis/%s: %+v", g.Name, alone)
		}
	}
	compareLists(t, get(t, h, "/api/v1").Body.Bytes(), upstream("api__v1.json"))
}

func compareLists(t *testing.T, got, want []byte) {
	t.Helper()
	gotList, wantList := parse[metav1.APIResourceList](t, got), parse[metav1.APIResourceList](t, want)
	if gotList.TypeMeta != wantList.TypeMeta || gotList.GroupVersion != wantList.GroupVersion {
		t.Errorf("%s: %+v, want %+v", gotList.GroupVersion, gotList.TypeMeta, wantList.TypeMeta)
	}
	last := -1
	for _, r := range gotList.APIResources {
		i := slices.IndexFunc(wantList.APIResources, func(o metav1.APIResource) bool { return o.Name == r.Name })
		if i < 0 {
			t.Errorf("%s %s: not in Kubernetes", gotList.GroupVersion, r.Name)
			continue
		}
		if i < last {
			t.Errorf("%s %s is at the wrong position", gotList.GroupVersion, r.Name)
		}
		last = i
		a, _ := json.Marshal(r)
		b, _ := json.Marshal(wantList.APIResources[i])
		assert.Equalf(t, string(a), string(b), "%s", gotList.GroupVersion)
	}
}

// Both aggregated documents equal those of kube-apiserver for each resource.
func TestAggregated(t *testing.T) {
	h, registry := newHandler(t)
	want := parse[apidiscoveryv2.APIGroupDiscoveryList](t, documents(t)("aggregated_v2.json"))
	known := map[string]string{}
	for key, r := range resources(want) {
		known[key] = r
	}
	w := get(t, h, "/apis", "Accept", aggregatedV2+","+aggregatedV2beta1+",application/json")
	assert.Equalf(t, w.Header().Get("Content-Type"), aggregatedV2, "Content-Type")
	for key, r := range resources(parse[apidiscoveryv2.APIGroupDiscoveryList](t, w.Body.Bytes())) {
		assert.Equalf(t, r, known[key], "%s", key)
	}
	core := parse[apidiscoveryv2.APIGroupDiscoveryList](t, get(t, h, "/api", "Accept", aggregatedV2).Body.Bytes())
	if len(core.Items) != 1 || core.Items[0].Name != "" || len(core.Items[0].Versions) != 1 {
		t.Errorf("core: %+v", core)
	}
	beta := get(t, h, "/apis", "Accept", aggregatedV2beta1)
	assert.Equalf(t, beta.Code, http.StatusNotAcceptable, "v2beta1, which was removed")

	// An ETag is valid until the document changes.
	etag := w.Header().Get("ETag")
	if code := get(t, h, "/apis", "Accept", aggregatedV2, "If-None-Match", etag).Code; code != http.StatusNotModified ||
		etag == "" {
		t.Errorf("If-None-Match %s: %d", etag, code)
	}
	registry.Put(&resource.Resource{
		Group: "example.com", Plural: "ats", Kind: "At", Versions: []resource.Version{{Name: "v1alpha1"}, {Name: "v1"}},
		Behavior: resource.Behavior{QualifiedKind: true},
	})
	w = get(t, h, "/apis", "Accept", aggregatedV2, "If-None-Match", etag)
	assert.Equalf(t, w.Code, http.StatusOK, "after a change")
	list := parse[apidiscoveryv2.APIGroupDiscoveryList](t, w.Body.Bytes())
	last := list.Items[len(list.Items)-1]
	if last.Name != "example.com" || last.Versions[0].Version != "v1" ||
		last.Versions[0].Resources[0].ResponseKind.Group != "example.com" {
		t.Errorf("last group: %+v", last)
	}
}

func resources(list apidiscoveryv2.APIGroupDiscoveryList) map[string]string {
	out := map[string]string{}
	for _, g := range list.Items {
		for _, v := range g.Versions {
			for _, r := range v.Resources {
				// Another test compares subresources.
				r.Subresources = nil
				data, _ := json.Marshal(r)
				out[g.Name+"/"+v.Version+"/"+r.Resource] = string(data)
			}
		}
	}
	return out
}

// Discovery is served as JSON, YAML and protobuf, and pretty on request. Unknown groups and
// versions get 404, other media types 406, and other methods 405.
func TestForms(t *testing.T) {
	h, _ := newHandler(t)
	for _, c := range []struct {
		path, accept string
		code         int
		contentType  string
		begins       string
	}{
		{"/api", "", 200, "application/json",
			`{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":"plane:6443"}]}`},
		{"/api/", "application/json", 200, "application/json", `{"kind":"APIVersions"`},
		{"/apis/", "application/yaml", 200, "application/yaml", "apiVersion: v1\n"},
		{"/apis", "application/vnd.kubernetes.protobuf", 200, "application/vnd.kubernetes.protobuf", "k8s\x00"},
		{"/apis", strings.Replace(aggregatedV2, "json", "vnd.kubernetes.protobuf", 1), 200,
			strings.Replace(aggregatedV2, "json", "vnd.kubernetes.protobuf", 1), "k8s\x00"},
		{"/apis/apps/v1?pretty=true", "", 200, "application/json", "{\n  \"kind\": \"APIResourceList\""},
		{"/apis/apps/v2", "", 404, "application/json", `{"kind":"Status"`},
		{"/apis/nope", "", 404, "text/plain; charset=utf-8", "404 page not found"},
		{"/api/v2", "", 404, "application/json", `{"kind":"Status"`},
		{"/apis", "text/html", 406, "application/json", "{\n  \"kind\": \"Status\""},
	} {
		w := get(t, h, c.path, "Accept", c.accept)
		if w.Code != c.code || w.Header().Get("Content-Type") != c.contentType ||
			!strings.HasPrefix(w.Body.String(), c.begins) {
			t.Errorf("%s (%s): %d %s %.120q, want %d %s %q", c.path, c.accept, w.Code, w.Header().Get("Content-Type"),
				w.Body, c.code, c.contentType, c.begins)
		}
	}
	if w := httptest.NewRecorder(); true {
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api", nil))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("POST: %d %v", w.Code, w.Header())
		}
	}
}

func BenchmarkAggregated(b *testing.B) {
	h, registry := newHandler(b)
	b.Run("kept", func(b *testing.B) {
		for b.Loop() {
			get(b, h, "/apis", "Accept", aggregatedV2)
		}
	})
	b.Run("made", func(b *testing.B) {
		for b.Loop() {
			registry.Put()
			get(b, h, "/apis", "Accept", aggregatedV2)
		}
	})
}

// Paths without a document, and media types in which a document is not available.
func TestNoDocument(t *testing.T) {
	h, registry := newHandler(t)
	registry.Put(&resource.Resource{Group: "example.com", Plural: "ats", Kind: "At",
		Versions: []resource.Version{{Name: "v1"}},
		Behavior: resource.Behavior{DispatchByVerb: true}})
	for _, c := range []struct {
		method, path, accept string
		code                 int
		body                 string
	}{
		{"GET", "/api/v2", "", 404, `"message":"the server could not find the requested resource"`},
		{"GET", "/apis/nothing", "", 404, "404 page not found"},
		{"GET", "/apis/nothing/v1", "application/xml", 404, "404 page not found"},
		{"POST", "/apis/apiregistration.k8s.io", "", 405,
			`"message":"the server does not allow this method on the requested resource"`},
		{"GET", "/apis/apiregistration.k8s.io", "application/xml", 406, "406: Not Acceptable"},
		{"GET", "/apis/apps", "application/xml", 406,
			"are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf, application/cbor"},
		{"GET", "/apis/example.com/v1", "application/xml", 406,
			`are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"`},
		{"GET", "/apis/example.com/v1", "application/cbor", 406,
			`are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"`},
	} {
		req := httptest.NewRequest(c.method, c.path, nil)
		if c.accept != "" {
			req.Header.Set("Accept", c.accept)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.accept, w.Code, w.Body)
		}
	}
}
