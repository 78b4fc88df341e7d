package crd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/crd"
	"kelson.dev/apiserver/discovery"
	"kelson.dev/apiserver/fastpath"
	"kelson.dev/apiserver/flowcontrol"
	"kelson.dev/apiserver/inprocess"
	"kelson.dev/apiserver/openapi"
	"kelson.dev/apiserver/resource"
	verbs "kelson.dev/apiserver/rest"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// plane is a control plane that serves only definitions and their kinds.
type plane struct {
	t           testing.TB
	store       *store.Store
	registry    *resource.Registry
	definitions *crd.Definitions
	handler     http.Handler
	waiting     flowcontrol.Waiter // put into the context of every request; nil: none
}

func newPlane(t testing.TB, change ...func(*crd.Config)) *plane {
	t.Helper()
	s := storetest.New(t, store.Config{})
	return planeOver(t, s, change...)
}

func planeOver(t testing.TB, s *store.Store, change ...func(*crd.Config)) *plane {
	t.Helper()
	p := &plane{t: t, store: s, registry: resource.NewRegistry()}
	h := verbs.New(verbs.Config{Store: s, Registry: p.registry, NoFastPaths: fastpath.DisabledByEnvironment()})
	cfg := crd.Config{
		Store: s, Registry: p.registry, Objects: func() resource.Objects {
			return h
		}, NoFastPaths: fastpath.DisabledByEnvironment(),
	}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	p.definitions, err = crd.New(cfg)
	require.NoError(t, err)
	p.registry.Put(p.definitions.Resource())
	require.NoError(t, p.definitions.Load())
	disco := discovery.New(discovery.Config{Registry: p.registry})
	schemas := openapi.New(openapi.Config{Registry: p.registry, Custom: p.definitions, Packed: packedDocuments(t)})
	info := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
		GrouplessAPIPrefixes: sets.NewString("api")}
	p.handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		i, err := info.NewRequestInfo(req)
		assert.NoError(t, err)
		ctx := request.WithRequestInfo(req.Context(), i)
		ctx = warning.WithWarningRecorder(ctx, warnings{w.Header()})
		if p.waiting != nil {
			ctx = context.WithValue(ctx, flowcontrol.WaiterKey, p.waiting)
		}
		req = req.WithContext(ctx)
		switch {
		case i.IsResourceRequest:
			h.ServeHTTP(w, req)
		case strings.HasPrefix(req.URL.Path, "/openapi"):
			schemas.ServeHTTP(w, req)
		default:
			disco.ServeHTTP(w, req)
		}
	})
	return p
}

// packedDocuments returns Kubernetes' own OpenAPI documents. The product holds them; the engine
// must not import the product, so the test reads the file.
func packedDocuments(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "kubernetes", "openapispec", "kubernetes.zip"))
	require.NoError(t, err)
	return string(data)
}

// run starts Definitions.Run and returns a function that stops it.
func (p *plane) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.definitions.Run(ctx) }()
	return func() {
		cancel()
		assert.NoErrorf(p.t, <-done, "Run")
	}
}

func (p *plane) config() *rest.Config {
	return &rest.Config{Host: "http://plane", Transport: &inprocess.Transport{Handler: p.handler}, QPS: -1}
}

type warnings struct{ header http.Header }

func (w warnings) AddWarning(_, text string) {
	if header, err := utilnet.NewWarningHeader(299, "-", text); err == nil {
		w.header.Add("Warning", header)
	}
}

// answer is a response to one request.
type answer struct {
	t        testing.TB
	code     int
	header   http.Header
	body     []byte
	warnings []string
}

func (p *plane) do(method, path, body string, header ...string) *answer {
	p.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, "http://plane"+path,
		bytes.NewBufferString(body))
	require.NoError(p.t, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := (&inprocess.Transport{Handler: p.handler}).RoundTrip(req)
	require.NoError(p.t, err)
	data := require.Body(p.t, resp)
	a := &answer{t: p.t, code: resp.StatusCode, header: resp.Header, body: data}
	parsed, _ := utilnet.ParseWarningHeaders(resp.Header.Values("Warning"))
	for _, w := range parsed {
		a.warnings = append(a.warnings, w.Text)
	}
	return a
}

// want checks the status code and returns the answer.
func (a *answer) want(code int) *answer {
	a.t.Helper()
	if a.code != code {
		a.t.Fatalf("got %d, want %d: %s", a.code, code, a.body)
	}
	return a
}

func (a *answer) object() *unstructured.Unstructured {
	a.t.Helper()
	u := &unstructured.Unstructured{}
	require.NoErrorf(a.t, json.Unmarshal(a.body, &u.Object), "%s", a.body)
	return u
}

// field reads a field of the response's object; nil if it is missing.
func (a *answer) field(path string) any {
	a.t.Helper()
	return field(a.t, a.object(), path)
}

func field(t testing.TB, u *unstructured.Unstructured, path string) any {
	t.Helper()
	v, _, err := unstructured.NestedFieldNoCopy(u.Object, strings.Split(path, ".")...)
	require.NoError(t, err)
	return v
}

func (a *answer) message() string {
	m, _ := a.field("message").(string)
	return m
}

const (
	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	widgetsPath     = "/apis/example.com/v1/namespaces/default/widgets"
)

// widgets returns a definition that uses most features of schemas. mods replace pieces of it: old,
// new, old, new …
func widgets(mods ...string) string {
	return strings.NewReplacer(mods...).Replace(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
"metadata":{"name":"widgets.example.com"},
"spec":{"group":"example.com","scope":"Namespaced",
"names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList","shortNames":["wd"],"categories":["all"]},
"versions":[{"name":"v1","served":true,"storage":true,
"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas","labelSelectorPath":".status.selector"}},
"selectableFields":[{"jsonPath":".spec.color"}],
"additionalPrinterColumns":[{"name":"Color","type":"string","jsonPath":".spec.color"},{"name":"Replicas","type":"integer","jsonPath":".spec.replicas"}],
"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","description":"What the widget should be.","required":["color"],"properties":{
 "color":{"type":"string","enum":["red","green","blue"]},
 "replicas":{"type":"integer","minimum":0,"maximum":10,"default":1},
 "size":{"x-kubernetes-int-or-string":true},
 "note":{"type":"string","nullable":true},
 "template":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"x-kubernetes-embedded-resource":true},
 "free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
 "ports":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["port"],"items":{"type":"object","required":["port"],"properties":{"port":{"type":"integer"},"name":{"type":"string","default":"main"}}}}
 },"x-kubernetes-validations":[{"rule":"self.color != 'red' || self.replicas <= 5","message":"too much red"},{"rule":"self.color == oldSelf.color","message":"color is immutable"}]},
"status":{"type":"object","properties":{"replicas":{"type":"integer"},"selector":{"type":"string"},"phase":{"type":"string"}}}
}}}}]}}`)
}

func widget(name, spec string) string {
	return `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"` + name + `"},"spec":` + spec + `}`
}

func resourceOf(plural string) schema.GroupResource {
	return schema.GroupResource{Group: "example.com", Resource: plural}
}
