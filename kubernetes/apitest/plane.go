// Package apitest tests the API: the store, the built-in kinds, the verbs and the request pipeline,
// composed in memory, with an HTTP client that needs no network. It works in a testing/synctest
// bubble.
//
//	p := apitest.New(t)
//	created := p.Want(t, 201, "POST", "/api/v1/namespaces/default/pods", pod)
//	events := p.Watch(t, "/api/v1/pods?watch=1")
//	events.Expect(t, "ADDED web")
package apitest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/authz"
	"kelson.dev/apiserver/crd"
	"kelson.dev/apiserver/fastpath"
	"kelson.dev/apiserver/filters"
	"kelson.dev/apiserver/inprocess"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/builtin"
)

// Plane is a control plane with the built-in kinds and the whole request pipeline, without
// controllers.
type Plane struct {
	*filters.Chain
	Store    *store.Store
	Registry *resource.Registry
	// Client sends requests as a member of system:masters.
	Client *http.Client

	verbs *rest.Handler
}

// Retain is how many events per kind the store retains for watches.
const Retain = 100

// New returns an empty control plane that ends with the test. storetest.Guard checks the guarantees
// of watches after every commit. The options change the configuration of the verbs.
func New(t testing.TB, options ...func(*rest.Config)) *Plane {
	t.Helper()
	st := storetest.New(t, store.Config{Retain: Retain})
	storetest.Guard(t, st)
	var h *rest.Handler
	resources, err := builtin.Resources(builtin.Config{Store: st, Objects: func() resource.Objects {
		return h
	}, NoFastPaths: fastpath.DisabledByEnvironment()})
	require.NoError(t, err)
	registry := resource.NewRegistry(resources...)
	cfg := rest.Config{Store: st, Registry: registry, NoFastPaths: fastpath.DisabledByEnvironment()}
	for _, option := range options {
		option(&cfg)
	}
	h = rest.New(cfg)
	c := filters.New(filters.Config{Resources: h, Authorizer: authz.Masters()})
	admin := &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}
	return &Plane{Chain: c, Store: st, Registry: registry, verbs: h,
		Client: &http.Client{Transport: &inprocess.Transport{
			Handler: c,
			Context: func(ctx context.Context) context.Context { return filters.WithUser(ctx, admin) },
		}}}
}

// Define makes the plane serve custom kinds, and creates definitions.
func (p *Plane) Define(t testing.TB, definitions ...string) {
	t.Helper()
	kinds, err := crd.New(crd.Config{
		Store: p.Store, Registry: p.Registry, Objects: func() resource.Objects {
			return p.verbs
		}, NoFastPaths: fastpath.DisabledByEnvironment(),
	})
	require.NoError(t, err)
	p.Registry.Put(kinds.Resource())
	for _, definition := range definitions {
		p.Want(t, 201, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
	}
}

// Do sends a request; header lines have the form "Name: value".
func (p *Plane) Do(t testing.TB, method, path, body string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, "http://kelson"+path, strings.NewReader(body))
	require.NoError(t, err)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	resp, err := p.Client.Do(req)
	require.NoError(t, err)
	return resp
}

// Object is a decoded API object.
type Object = map[string]any

// Want sends a request, checks the status code, and decodes the response.
func (p *Plane) Want(t testing.TB, code int, method, path, body string, header ...string) Object {
	t.Helper()
	resp := p.Do(t, method, path, body, header...)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	if resp.StatusCode != code {
		t.Fatalf("%s %s: %d, want %d\n%s", method, path, resp.StatusCode, code, raw)
	}
	var obj Object
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, &obj); err != nil {
		t.Fatalf("%s %s: %v\n%s", method, path, err, raw)
	}
	return obj
}

// At returns the value at a path of member names, or nil.
func At(obj any, path ...string) any {
	for _, name := range path {
		m, ok := obj.(map[string]any)
		if !ok {
			return nil
		}
		obj = m[name]
	}
	return obj
}
