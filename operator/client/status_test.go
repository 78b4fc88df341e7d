package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest/apiserver"
)

const lighthouseCRD = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"lighthouses.GROUP"},
"spec":{"group":"GROUP","scope":"Namespaced","names":{"plural":"lighthouses","singular":"lighthouse","kind":"Lighthouse","listKind":"LighthouseList"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","required":["height"],"properties":{"height":{"type":"integer"}}},
"status":{"type":"object","properties":{"lit":{"type":"boolean"},"keeper":{"type":"string"},"turns":{"type":"integer"},"lamps":{"type":"array","items":{"type":"string"}}}}}}}}]}}`

const (
	sentProbe, sentUpdate, sentPatch = "PATCH strategic-merge-patch", "PUT json", "PATCH merge-patch"
)

// A patch of a status is sent as an update if both are equivalent.
func TestStatusPatchStory(t *testing.T) {
	cfg := apiserver.For(t)
	ctx := t.Context()
	group := "sea" + time.Now().Format("150405") + ".kelson.dev"
	other, err := client.New(client.Config{REST: cfg, FieldOwner: "other"})
	must(t, err)
	crd := &unstructured.Unstructured{}
	must(t, json.Unmarshal([]byte(strings.ReplaceAll(lighthouseCRD, "GROUP", group)), &crd.Object))
	must(t, other.Create(ctx, crd))
	t.Cleanup(func() { _ = other.Delete(context.Background(), crd) })

	lighthouse := func(name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Lighthouse",
			"spec": map[string]any{"height": int64(30)}}}
		u.SetNamespace("default")
		u.SetName(name)
		u.SetLabels(map[string]string{"coast": "west"})
		u.SetAnnotations(map[string]string{"built": "1822"})
		u.SetFinalizers([]string{"sea.kelson.dev/keep"})
		return u
	}
	created := func(t *testing.T, name string) *unstructured.Unstructured {
		t.Helper()
		u := lighthouse(name)
		for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			err := other.Create(ctx, u)
			if err == nil {
				break
			}
			if time.Since(begin) > time.Minute {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() {
			_ = other.Patch(context.Background(), u,
				client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
		})
		return u
	}
	raw := func(c client.Client, u *unstructured.Unstructured, status string) {
		t.Helper()
		must(t, c.Subresource("status").Patch(ctx, u,
			client.RawPatch(types.MergePatchType, []byte(`{"status":`+status+`}`))))
	}
	// patch returns the patch from the part of before that a type decodes to status.
	patch := func(before *unstructured.Unstructured, old, status, document string) client.StatusPatch {
		return client.StatusPatch{
			Before: before, Old: []byte(old), New: []byte(status),
			Document: fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"status":%s}`, before.GetResourceVersion(),
				document),
		}
	}
	sent := &requests{}
	founder := func(between func(next http.RoundTripper, r *http.Request) (*http.Response, error)) client.Client {
		sent.sent = nil
		cfg := rest.CopyConfig(cfg)
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return sent.wrap(roundTrip(func(r *http.Request) (*http.Response, error) {
				if between == nil {
					return next.RoundTrip(r)
				}
				return between(next, r)
			}))
		})
		c, err := client.New(client.Config{REST: cfg, FieldOwner: "founder"})
		must(t, err)
		return c
	}
	// check verifies that only the status has changed.
	check := func(t *testing.T, answer *unstructured.Unstructured, want string, managers ...string) {
		t.Helper()
		live := lighthouse(answer.GetName())
		must(t, other.Get(ctx, client.KeyOf(answer), live))
		for _, u := range []*unstructured.Unstructured{live, answer} {
			status, err := json.Marshal(u.Object["status"])
			must(t, err)
			assert.Equalf(t, string(status), want, "status")
			if u.GetLabels()["coast"] != "west" || u.GetAnnotations()["built"] != "1822" ||
				len(u.GetFinalizers()) != 1 || u.GetGeneration() != 1 ||
				u.Object["spec"].(map[string]any)["height"] != int64(30) {
				t.Errorf("it is %v", u.Object)
			}
		}
		var got []string
		for _, e := range live.GetManagedFields() {
			if e.Subresource != "" {
				got = append(got, strings.Join([]string{e.Manager, string(e.Operation), e.Subresource,
					string(e.FieldsV1.Raw)}, " "))
			}
		}
		slices.Sort(got)
		assert.Slicef(t, got, managers, "managers")
	}
	c := founder(nil)
	write := func(t *testing.T, c client.Client, p client.StatusPatch,
		opts ...client.WriteOption) *unstructured.Unstructured {
		t.Helper()
		answer := lighthouse(p.Before.GetName())
		must(t, c.Subresource("status").Patch(ctx, answer, p, opts...))
		return answer
	}

	t.Run("one manager", func(t *testing.T) {
		u := created(t, "one")
		u = write(t, c, patch(u, `null`, `{"lit":true,"turns":1}`, `{"lit":true,"turns":1}`))
		sent.want(t, sentProbe, sentUpdate)
		check(t, u, `{"lit":true,"turns":1}`, `founder Update status {"f:status":{".":{},"f:lit":{},"f:turns":{}}}`)
		u = write(t, c, patch(u, `{"lit":true,"turns":1}`, `{"turns":2,"lamps":["a"]}`,
			`{"lit":null,"turns":2,"lamps":["a"]}`))
		sent.want(t, sentUpdate)
		check(t, u, `{"lamps":["a"],"turns":2}`,
			`founder Update status {"f:status":{".":{},"f:lamps":{},"f:turns":{}}}`)
		stale := u.DeepCopy()
		u = write(t, c, patch(u, `{"turns":2,"lamps":["a"]}`, `null`, `null`))
		sent.want(t, sentUpdate)
		check(t, u, `null`)
		err := c.Subresource("status").Patch(ctx, lighthouse("one"),
			patch(stale, `{"turns":2,"lamps":["a"]}`, `{"turns":3}`, `{"turns":3}`))
		if !apierrors.IsConflict(err) {
			t.Errorf("error %v", err)
		}
		sent.want(t, sentUpdate)
	})
	t.Run("dry run", func(t *testing.T) {
		u := created(t, "dry")
		answer := write(t, c, patch(u, `null`, `{"turns":1}`, `{"turns":1}`), client.DryRunAll)
		sent.want(t, sentUpdate)
		if answer.Object["status"] == nil {
			t.Errorf("answer %v", answer.Object)
		}
		check(t, u, `null`)
	})
	t.Run("two managers", func(t *testing.T) {
		u := created(t, "another")
		raw(other, u, `{"keeper":"Ida"}`)
		u = write(t, c, patch(u, `null`, `{"lit":true}`, `{"lit":true}`))
		sent.want(t, sentPatch)
		check(t, u, `{"keeper":"Ida","lit":true}`, `founder Update status {"f:status":{"f:lit":{}}}`,
			`other Update status {"f:status":{".":{},"f:keeper":{}}}`)
	})
	t.Run("with fields that the type lacks", func(t *testing.T) {
		u := created(t, "more")
		raw(c, u, `{"lit":true,"keeper":"Ida"}`)
		sent.want(t, sentPatch)
		u = write(t, c, patch(u, `{"lit":true}`, `{"lit":false}`, `{"lit":false}`))
		sent.want(t, sentPatch)
		check(t, u, `{"keeper":"Ida","lit":false}`,
			`founder Update status {"f:status":{".":{},"f:keeper":{},"f:lit":{}}}`)
	})
	t.Run("without managedFields", func(t *testing.T) {
		u := created(t, "without")
		u.SetManagedFields(nil)
		write(t, c, patch(u, `null`, `{"turns":1}`, `{"turns":1}`))
		sent.want(t, sentPatch)
	})
	t.Run("invalid value", func(t *testing.T) {
		u := created(t, "wrong")
		err := c.Subresource("status").Patch(ctx, lighthouse("wrong"),
			patch(u, `null`, `{"turns":"one"}`, `{"turns":"one"}`))
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "status.turns") {
			t.Errorf("error %v", err)
		}
		sent.want(t, sentUpdate, sentPatch)
	})
	t.Run("without permission to update", func(t *testing.T) {
		c := founder(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPut {
				return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{},
					Body: io.NopCloser(strings.NewReader("patch, please")), Request: r}, nil
			}
			return next.RoundTrip(r)
		})
		u := created(t, "rights")
		u = write(t, c, patch(u, `null`, `{"turns":1}`, `{"turns":1}`))
		u = write(t, c, patch(u, `{"turns":1}`, `{"turns":2}`, `{"turns":2}`))
		sent.want(t, sentProbe, sentUpdate, sentPatch, sentPatch)
		check(t, u, `{"turns":2}`, `founder Update status {"f:status":{".":{},"f:turns":{}}}`)
	})
	t.Run("unknown whether the kind is custom", func(t *testing.T) {
		down := true
		c := founder(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
			if down && r.Header.Get("Content-Type") == string(types.StrategicMergePatchType) {
				return &http.Response{StatusCode: http.StatusInternalServerError, Header: http.Header{},
					Body: io.NopCloser(strings.NewReader("not now")), Request: r}, nil
			}
			return next.RoundTrip(r)
		})
		u := created(t, "unknown")
		u = write(t, c, patch(u, `null`, `{"turns":1}`, `{"turns":1}`))
		sent.want(t, sentProbe, sentPatch)
		down = false
		write(t, c, patch(u, `{"turns":1}`, `{"turns":2}`, `{"turns":2}`))
		sent.want(t, sentProbe, sentUpdate)
	})
	t.Run("Kubernetes' own kinds", func(t *testing.T) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "status-patch-"}}
		must(t, other.Create(ctx, ns))
		t.Cleanup(func() { _ = other.Delete(context.Background(), ns) })
		p := client.StatusPatch{
			Before: ns.DeepCopy(), Old: []byte(`{}`), New: []byte(`{"conditions":[]}`),
			Document: fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"status":{"conditions":[]}}`,
				ns.ResourceVersion),
		}
		must(t, c.Subresource("status").Patch(ctx, ns, p))
		sent.want(t, sentPatch)
		// The same with a client without a Go type for the kind.
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
		must(t, other.Get(ctx, client.Key{Name: ns.Name}, u))
		for range 2 {
			p.Before, p.Old = u.DeepCopy(), []byte(`{"phase":"Active"}`)
			p.Document = fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"status":{"conditions":[]}}`,
				u.GetResourceVersion())
			must(t, c.Subresource("status").Patch(ctx, u, p))
		}
		sent.want(t, sentProbe, sentPatch, sentPatch)
	})
}
