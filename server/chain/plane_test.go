package chain_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/server/authz"
	"kelson.dev/server/builtin"
	"kelson.dev/server/chain"
	"kelson.dev/server/inprocess"
	"kelson.dev/server/resource"
	"kelson.dev/server/rest"
	"kelson.dev/server/store"
)

// plane is a control plane of the built-in kinds behind the whole pipeline.
type plane struct {
	*chain.Chain
	store  *store.Store
	client *http.Client
}

func newPlane(t *testing.T) *plane {
	t.Helper()
	st, err := store.Open(store.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	var h *rest.Handler
	resources, err := builtin.Resources(builtin.Config{Objects: func() resource.Objects { return h }})
	if err != nil {
		t.Fatal(err)
	}
	h = rest.New(rest.Config{Store: st, Registry: resource.NewRegistry(resources...)})
	c := chain.New(chain.Config{Resources: h, Authorizer: authz.Basic()})
	admin := &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}
	return &plane{Chain: c, store: st, client: &http.Client{Transport: &inprocess.Transport{
		Handler: c,
		Context: func(ctx context.Context) context.Context { return chain.WithUser(ctx, admin) },
	}}}
}

// do makes a request; header lines are "Name: value".
func (p *plane) do(t *testing.T, method, path, body string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://kelson"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// object is an API object as a client without types sees it.
type object = map[string]any

// want makes a request that must have a certain code, and decodes the answer.
func (p *plane) want(t *testing.T, code int, method, path, body string, header ...string) object {
	t.Helper()
	resp := p.do(t, method, path, body, header...)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != code {
		t.Fatalf("%s %s: %d, want %d\n%s", method, path, resp.StatusCode, code, raw)
	}
	var obj object
	if err := json.Unmarshal(raw, &obj); err != nil {
		t.Fatalf("%s %s: %v\n%s", method, path, err, raw)
	}
	return obj
}

// at follows a path of member names.
func at(obj any, path ...string) any {
	for _, name := range path {
		m, ok := obj.(map[string]any)
		if !ok {
			return nil
		}
		obj = m[name]
	}
	return obj
}
