package client_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest/apiserver"
)

// A client finds a kind whose definition was deleted and created again with another plural and
// scope.
func TestKindWithAnotherPluralStory(t *testing.T) {
	c, err := client.New(client.Config{REST: apiserver.For(t)})
	must(t, err)
	ctx := t.Context()
	group := "cape" + time.Now().Format("150405") + ".kelson.dev"
	define := func(text string) *unstructured.Unstructured {
		crd := &unstructured.Unstructured{}
		must(t, json.Unmarshal([]byte(strings.ReplaceAll(text, "GROUP", group)), &crd.Object))
		require.Success(t, func() error { return c.Create(ctx, crd.DeepCopy()) })
		return crd
	}
	lighthouse := func(namespace string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "Lighthouse",
			"spec": map[string]any{"height": int64(30)}}}
		u.SetNamespace(namespace)
		u.SetName("pharos")
		return u
	}
	crd := define(lighthouseCRD)
	require.Success(t, func() error { return c.Create(ctx, lighthouse("default")) })
	must(t, c.Delete(ctx, crd))
	crd = define(strings.NewReplacer("lighthouses", "beacons", "Namespaced", "Cluster").Replace(lighthouseCRD))
	t.Cleanup(func() { _ = c.Delete(context.Background(), crd) })
	require.Success(t, func() error { return c.Create(ctx, lighthouse("")) })
	must(t, c.Get(ctx, client.Key{Name: "pharos"}, lighthouse("")))
}
