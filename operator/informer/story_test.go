package informer_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/internal/apitest/apiserver"
)

// On a real API server, informers that have caught up include the writes of another process.
// Without writes, this takes no time, although bookmarks arrive only once a minute.
func TestCatchUpStory(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	direct, err := client.New(client.Config{REST: apiserver.For(t)})
	must := func(err error) {
		t.Helper()
		must(t, err)
	}
	must(err)
	// the namespace of the previous run may still be terminating
	namespace := fmt.Sprint("catch-up-", time.Now().UnixNano())
	_ = direct.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	set, err := informer.New(informer.Config{
		Client: direct, Scope: informer.Scope{Namespaces: []string{namespace}}, Log: slog.New(slog.DiscardHandler),
	})
	must(err)
	configMaps, err := set.For(&corev1.ConfigMap{})
	must(err)
	secrets, err := set.For(&corev1.Secret{}) // Secrets do not change
	must(err)
	ended := make(chan error, 1)
	go func() { ended <- set.Run(ctx) }()
	must(set.WaitForSync(ctx))
	before := len(configMaps.List("")) // on some servers, the cluster's authority is one
	name := func(n int) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("c", n)}}
	}
	t.Cleanup(func() {
		_ = direct.Delete(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	})
	var longest time.Duration
	catchUp := func() {
		t.Helper()
		begin := time.Now()
		must(set.CatchUp(ctx))
		longest = max(longest, time.Since(begin))
	}
	for round := range 5 {
		for n := range 50 {
			must(direct.Create(ctx, name(n)))
		}
		catchUp()
		if got := len(configMaps.List("")) - before; got < 50 {
			t.Errorf("round %d: %d of 50", round, got)
		}
		for n := range 50 {
			must(direct.Delete(ctx, name(n)))
		}
		catchUp()
		for n := range 50 {
			if _, found := configMaps.Get(client.KeyOf(name(n))); found {
				t.Errorf("round %d: c%d is there", round, n)
			}
		}
		catchUp()
	}
	t.Logf("the longest took %v; %d secrets", longest, len(secrets.List("")))
	if longest > 20*time.Second {
		t.Errorf("it took %v", longest)
	}
	cancel()
	must(<-ended)
}

// A namespace that is deleted by its metadata exists until it is empty.
func TestTerminatingNamespaceStory(t *testing.T) {
	ctx := t.Context()
	direct, err := client.New(client.Config{REST: apiserver.For(t)})
	must(t, err)
	set, err := informer.New(informer.Config{Client: direct, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	go func() { _ = set.Run(ctx) }()
	c := set.Client()
	whole := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("terminating-", time.Now().UnixNano())}}
	metadata := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: whole.Name}}
	must(t, c.Create(ctx, whole))
	content := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: whole.Name, Name: "held", Finalizers: []string{"kelson.dev/test"}}}
	must(t, direct.Create(ctx, content))
	t.Cleanup(func() {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		_ = direct.Patch(context.Background(), content, patch)
	})
	for _, obj := range []client.Object{whole, metadata} {
		must(t, c.Get(ctx, client.KeyOf(whole), obj)) // starts the informer
	}
	must(t, c.Delete(ctx, metadata.DeepCopy()))
	label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
	for _, write := range []func() error{func() error { return nil }, func() error { return c.Patch(ctx, metadata.DeepCopy(), label) }} {
		must(t, write())
		for _, obj := range []client.Object{whole, metadata} {
			if err := c.Get(ctx, client.KeyOf(whole), obj); err != nil || obj.GetDeletionTimestamp() == nil {
				t.Errorf("%T: deleted at %v, %v", obj, obj.GetDeletionTimestamp(), err)
			}
		}
	}
}
