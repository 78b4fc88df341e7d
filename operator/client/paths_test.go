package client_test

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
)

// A name that is not one segment of a path is an error before any request. Otherwise it would
// select a different object, or a collection.
func TestNamesInPaths(t *testing.T) {
	server, c := newClient(t)
	must(t, c.Create(t.Context(), pod("web")))
	// reads discovery
	must(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}))
	var sent []string
	server.SetFaults(apitest.Faults{Intercept: func(_ http.ResponseWriter, r *http.Request) bool {
		sent = append(sent, r.Method+" "+r.URL.Path)
		return false
	}})
	ctx := t.Context()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{}`))
	in := func(namespace, name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	}
	get := func(namespace, name string) error {
		return c.Get(ctx, client.Key{Namespace: namespace, Name: name}, &corev1.Pod{})
	}
	list := func(namespace string) error {
		_, err := client.List[corev1.Pod](ctx, c, client.InNamespace(namespace))
		return err
	}
	watch := func(namespace string) error {
		_, err := c.Watch(ctx, client.NewItems(&corev1.Pod{}), client.InNamespace(namespace))
		return err
	}
	for _, tt := range []struct {
		what string
		err  error
		want string
	}{
		{"get", get("default", "web/"), `GET pods: invalid resource name "web/": [may not contain '/']`},
		{"get parent", get("default", ".."), `GET pods: invalid resource name "..": [may not be '..']`},
		{"get escaped", get("default", "a%2fb"), `invalid resource name "a%2fb": [may not contain '%']`},
		{"get of namespace", get("default/pods", "web"), `invalid namespace "default/pods"`},
		{"list", list("default/pods/web"), `list pods: invalid namespace "default/pods/web"`},
		{"watch", watch("default/x"), `watch pods: invalid namespace "default/x"`},
		{"create", c.Create(ctx, in("default/x", "a")), `POST pods: invalid namespace "default/x"`},
		{"update", c.Update(ctx, in("default", "a/status")), `PUT pods: invalid resource name "a/status"`},
		{"patch", c.Patch(ctx, in("default", "a/status"), patch), `PATCH pods: invalid resource name "a/status"`},
		{"apply", c.Apply(ctx, in("default", "a/status")), `PATCH pods: invalid resource name "a/status"`},
		{"apply of a new object", c.Apply(ctx, in("x/y", "a"), client.WriteOptions{New: true}),
			`PATCH pods: invalid namespace "x/y"`},
		{"delete", c.Delete(ctx, in("default", "/")), `DELETE pods: invalid resource name "/": [may not contain '/']`},
		{"delete cluster-scoped", c.Delete(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default/pods/web"}}),
			`DELETE namespaces: invalid resource name "default/pods/web"`},
		{"delete all", c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace("default/x")),
			`delete all of pods: invalid namespace "default/x"`},
		{"get subresource", c.Subresource("status/x").Get(ctx, in("default", "web"), &corev1.Pod{}),
			`GET pods: invalid subresource "status/x"`},
		{"create subresource", c.Subresource("binding").Create(ctx, in("default", "web/x"), &corev1.Binding{}),
			`POST pods: invalid resource name "web/x"`},
		{"update status", c.Subresource("status").Update(ctx, in("default", "web/x"), nil),
			`PUT pods: invalid resource name "web/x"`},
		{"patch status", c.Subresource("..").Patch(ctx, in("default", "web"), patch),
			`PATCH pods: invalid subresource ".."`},
		{"apply status", c.Subresource("status").Apply(ctx, in("default", "/")),
			`PATCH pods: invalid resource name "/"`},
	} {
		assert.ErrorContainsf(t, tt.err, tt.want, "%s", tt.what)
	}
	if len(sent) > 0 {
		t.Errorf("the client sent %q", sent)
	}
	must(t, c.Get(ctx, web, &corev1.Pod{}))
}
