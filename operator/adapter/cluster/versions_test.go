package cluster_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"kelson.dev/operator/internal/apitest"
)

// versions serves Widgets of a server in v1beta1 too. Its watches deliver nothing.
type versions struct{ v1 http.RoundTripper }

func (v versions) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") == "true" {
		body, never := io.Pipe()
		go func() { <-r.Context().Done(); never.Close() }()
		return &http.Response{StatusCode: http.StatusOK, Request: r,
			Header: http.Header{"Content-Type": {"application/json"}}, Body: body}, nil
	}
	beta := strings.Contains(r.URL.Path, "/v1beta1/")
	replace := func(body io.ReadCloser, old, replacement string) io.ReadCloser {
		if body == nil || !beta {
			return body
		}
		defer body.Close()
		data, _ := io.ReadAll(body)
		return io.NopCloser(bytes.NewReader(bytes.ReplaceAll(data, []byte(old), []byte(replacement))))
	}
	r = r.Clone(r.Context())
	r.URL.Path = strings.Replace(r.URL.Path, "/v1beta1/", "/v1/", 1)
	r.Body = replace(r.Body, "example.com/v1beta1", "example.com/v1")
	resp, err := v.v1.RoundTrip(r)
	if err == nil {
		resp.Body = replace(resp.Body, "example.com/v1", "example.com/v1beta1")
		resp.ContentLength = -1
	}
	return resp, err
}

func widget(version, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: version, Kind: "Widget"})
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// Reads in one version of a kind see writes in another one, although the options treat the versions
// differently.
func TestReadsWritesInOtherVersions(t *testing.T) {
	only := cache.ByObject{Label: labels.Everything()}
	for name, o := range map[string]cache.Options{
		"default":     {},
		"one version": {ByObject: map[crclient.Object]cache.ByObject{widget("v1beta1", "", ""): only}},
		"each version": {ByObject: map[crclient.Object]cache.ByObject{widget("v1beta1", "", ""): only,
			widget("v1", "", ""): only}},
		"namespaces": {ByObject: map[crclient.Object]cache.ByObject{
			widget("v1beta1", "", ""): {Namespaces: map[string]cache.Config{"a": {LabelSelector: labels.Everything()},
				"b": {}}},
		}},
	} {
		for _, by := range [][2]string{{"v1", "v1beta1"}, {"v1beta1", "v1"}} {
			t.Run(fmt.Sprintf("%s/%s to %s", name, by[0], by[1]), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					config := apitest.New(apitest.NewKind("example.com", "v1", "Widget", "widgets")).REST()
					config.Transport = versions{config.Transport}
					m := meta.NewDefaultRESTMapper(nil)
					for _, version := range by {
						m.Add(widget(version, "", "").GroupVersionKind(), meta.RESTScopeNamespace)
					}
					o.Mapper = m
					_, c := startWith(t, config, o)
					written, read := widget(by[0], "a", "w"), widget(by[1], "a", "w")
					key := crclient.ObjectKeyFromObject(read)
					if err := c.Get(t.Context(), key, read); !apierrors.IsNotFound(err) {
						t.Fatalf("get before the writes: %v", err)
					}
					must(t, c.Create(t.Context(), written))
					if err := c.Get(t.Context(), key, read); err != nil ||
						read.GetResourceVersion() != written.GetResourceVersion() {
						t.Errorf("get after create: version %q, %v; want %q", read.GetResourceVersion(), err,
							written.GetResourceVersion())
					}
					must(t, unstructured.SetNestedField(written.Object, "b", "spec", "a"))
					must(t, c.Update(t.Context(), written))
					if err := c.Get(t.Context(), key, read); err != nil ||
						read.GetResourceVersion() != written.GetResourceVersion() {
						t.Errorf("get after update: version %q, %v; want %q", read.GetResourceVersion(), err,
							written.GetResourceVersion())
					}
					must(t, c.Delete(t.Context(), written))
					if err := c.Get(t.Context(), key, read); !apierrors.IsNotFound(err) {
						t.Errorf("get after delete: %v", err)
					}
				})
			})
		}
	}
}
