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

// The kind of an object may end in List.
func TestKindThatEndsInListStory(t *testing.T) {
	c, err := client.New(client.Config{REST: apiserver.For(t)})
	must(t, err)
	ctx := t.Context()
	group := "prices" + time.Now().Format("150405") + ".kelson.dev"
	crd := &unstructured.Unstructured{}
	must(t, json.Unmarshal([]byte(`{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": {"name": "pricelists.`+group+`"},
		"spec": {"group": "`+group+`", "scope": "Namespaced",
			"names": {"kind": "PriceList", "listKind": "PriceListList", "plural": "pricelists", "singular": "pricelist"},
			"versions": [{"name": "v1", "served": true, "storage": true,
				"schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}`),
		&crd.Object))
	require.Success(t, func() error { return c.Create(ctx, crd.DeepCopy()) })
	t.Cleanup(func() { _ = c.Delete(context.Background(), crd) })
	prices := func(currency string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1", "kind": "PriceList",
			"currency": currency}}
		u.SetNamespace("default")
		u.SetName("summer")
		return u
	}
	require.Success(t, func() error { return c.Create(ctx, prices("EUR")) })
	must(t, c.Apply(ctx, prices("USD"), client.FieldOwner("shop"), client.ForceOwnership))
	got := prices("")
	must(t, c.Get(ctx, client.KeyOf(got), got))
	if got.GetKind() != "PriceList" || got.Object["currency"] != "USD" {
		t.Errorf("get: %v", got.Object)
	}
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(group + "/v1")
	list.SetKind("PriceListList")
	must(t, c.List(ctx, list))
	if len(list.Items) != 1 || list.Items[0].GetKind() != "PriceList" {
		t.Errorf("list: %v", list.Items)
	}
	must(t, c.Delete(ctx, got))
}
