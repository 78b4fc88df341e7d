package controlplane_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// deleted is how many objects the benchmarks of deletions delete.
const deleted = 10_000

// BenchmarkNamespaceDeletion measures the deletion of a namespace with many ConfigMaps, until the
// namespace is gone.
func BenchmarkNamespaceDeletion(b *testing.B) {
	benchmarkDeletion(b, func(b *testing.B, client kubernetes.Interface) (from store.Key) {
		ctx := b.Context()
		_, err := client.CoreV1().Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "full"}}, metav1.CreateOptions{})
		require.NoError(b, err)
		fill(b, client, "full", nil)
		return store.Key{Resource: "namespaces", Name: "full"}
	}, func(ctx context.Context, client kubernetes.Interface) error {
		return client.CoreV1().Namespaces().Delete(ctx, "full", metav1.DeleteOptions{})
	})
}

// BenchmarkOwnerDeletion measures the deletion of an owner with many dependents in the foreground,
// until the owner is gone.
func BenchmarkOwnerDeletion(b *testing.B) {
	benchmarkDeletion(b, func(b *testing.B, client kubernetes.Interface) (from store.Key) {
		owner, err := client.CoreV1().ConfigMaps("default").Create(b.Context(),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
		require.NoError(b, err)
		fill(b, client, "default", []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name,
			UID: owner.UID, BlockOwnerDeletion: new(true)}})
		return store.Key{Resource: "configmaps", Namespace: "default", Name: "owner"}
	}, func(ctx context.Context, client kubernetes.Interface) error {
		foreground := metav1.DeletePropagationForeground
		return client.CoreV1().ConfigMaps("default").Delete(ctx, "owner",
			metav1.DeleteOptions{PropagationPolicy: &foreground})
	})
}

func fill(b *testing.B, client kubernetes.Interface, namespace string, owners []metav1.OwnerReference) {
	b.Helper()
	for i := range deleted {
		_, err := client.CoreV1().ConfigMaps(namespace).Create(b.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%05d", i), OwnerReferences: owners},
			Data:       map[string]string{"a": "b"},
		}, metav1.CreateOptions{})
		require.NoError(b, err)
	}
}

// benchmarkDeletion prepares a state once and measures the deletion in forks of it.
func benchmarkDeletion(b *testing.B, prepare func(*testing.B, kubernetes.Interface) store.Key,
	remove func(context.Context, kubernetes.Interface) error) {
	b.Helper()
	start := func(cfg controlplane.Config) (*controlplane.ControlPlane, kubernetes.Interface) {
		plane, err := controlplane.Start(b.Context(), cfg)
		require.NoError(b, err)
		client, err := kubernetes.NewForConfig(plane.RESTConfig())
		require.NoError(b, err)
		return plane, client
	}
	first, client := start(controlplane.Config{})
	defer first.Stop()
	key := prepare(b, client)
	state := first.Store().Snapshot()
	b.ReportAllocs()
	for b.Loop() {
		plane, client := start(controlplane.Config{From: state})
		require.NoError(b, remove(b.Context(), client))
		for plane.Store().Snapshot().Get(key) != nil {
			err := plane.Store().Await(b.Context(), plane.Store().Snapshot().Revision(), key.Resource)
			require.NoError(b, err)
		}
		plane.Stop()
	}
}
