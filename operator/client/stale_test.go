package client_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest/apiserver"
)

// Servers reject a JSON patch that sets an outdated resourceVersion with 409. The client relies on
// this when it writes a status with fields that the Go type lacks (see rebaseStatus).
func TestStaleJSONPatchStory(t *testing.T) {
	cfg := apiserver.For(t)
	ctx := t.Context()
	group := "reef" + time.Now().Format("150405") + ".kelson.dev"
	c, err := client.New(client.Config{REST: cfg})
	must(t, err)
	crd := &unstructured.Unstructured{}
	must(t, json.Unmarshal([]byte(strings.ReplaceAll(lighthouseCRD, "GROUP", group)), &crd.Object))
	must(t, c.Create(ctx, crd))
	t.Cleanup(func() { _ = c.Delete(context.Background(), crd) })
	custom := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Lighthouse",
		"spec": map[string]any{"height": int64(30)}}}
	custom.SetNamespace("default")
	custom.SetName("stale")
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if err := c.Create(ctx, custom); err == nil {
			break
		} else if time.Since(begin) > time.Minute {
			t.Fatal(err)
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "stale-" + time.Now().Format("150405")}}
	must(t, c.Create(ctx, node))
	t.Cleanup(func() { _ = c.Delete(context.Background(), node) })
	patch := func(version string, field string, value any) client.Patch {
		return client.JSONPatch(client.Operation{Op: "add", Path: "/metadata/resourceVersion", Value: version},
			client.Operation{Op: "add", Path: "/status", Value: map[string]any{field: value}})
	}
	for name, tt := range map[string]struct {
		obj   client.Object
		field string
		value any
	}{
		"custom resource": {custom, "turns", int64(7)},
		"built-in kind":   {node, "phase", "Pending"},
	} {
		t.Run(name, func(t *testing.T) {
			stale := tt.obj.GetResourceVersion()
			must(t, c.Patch(ctx, tt.obj, client.RawPatch(types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"changed":"yes"}}}`))))
			if tt.obj.GetResourceVersion() == stale {
				t.Fatal("the version is unchanged")
			}
			got := tt.obj.DeepCopyObject().(client.Object)
			if err := c.Subresource("status").Patch(ctx, got,
				patch(stale, tt.field, tt.value)); !apierrors.IsConflict(err) {
				t.Errorf("a stale patch: %v, want a conflict", err)
			}
			live := tt.obj.DeepCopyObject().(client.Object)
			must(t, c.Get(ctx, client.KeyOf(live), live))
			if live.GetResourceVersion() != tt.obj.GetResourceVersion() {
				t.Error("the stale patch changed the object")
			}
			must(t, c.Subresource("status").Patch(ctx, got, patch(tt.obj.GetResourceVersion(), tt.field, tt.value)))
			if got.GetResourceVersion() == tt.obj.GetResourceVersion() {
				t.Error("the current patch changed nothing")
			}
		})
	}
}
