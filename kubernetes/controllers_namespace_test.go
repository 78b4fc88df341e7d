package kubernetes_test

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/operator/client"
)

// The pods of a namespace are deleted first, and other objects after all pods have been removed.
func TestPodsAreDeletedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := startPlane(t, controlplane.Config{})
		c, err := client.New(client.Config{REST: plane.RESTConfig()})
		require.NoError(t, err)
		lab := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lab"}}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "held", Finalizers: []string{"example.com/hold"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "lab", Name: "settings"}}
		for _, obj := range []client.Object{lab, pod, settings} {
			require.NoError(t, c.Create(t.Context(), obj))
			synctest.Wait() // pods need the service account
		}
		require.NoError(t, c.Delete(t.Context(), lab))
		synctest.Wait()
		if err := c.Get(t.Context(), client.Key{Namespace: "lab", Name: "held"}, pod); err != nil ||
			pod.DeletionTimestamp == nil {
			t.Errorf("the pod is not being deleted: %v %v", pod.DeletionTimestamp, err)
		}
		if err := c.Get(t.Context(), client.Key{Namespace: "lab", Name: "settings"}, settings); err != nil ||
			settings.DeletionTimestamp != nil {
			t.Errorf("the ConfigMap does not wait for the pod: %v %v", settings.DeletionTimestamp, err)
		}
		require.NoError(t, c.Get(t.Context(), client.Key{Name: "lab"}, lab))
		remaining := ""
		for _, condition := range lab.Status.Conditions {
			if condition.Type == corev1.NamespaceContentRemaining {
				remaining = condition.Message
			}
		}
		assert.Containsf(t, remaining, "pods. has 1 resource instances", "remaining")

		pod.Finalizers = nil
		require.NoError(t, c.Update(t.Context(), pod))
		synctest.Wait()
		if err := c.Get(t.Context(), client.Key{Name: "lab"}, lab); !apierrors.IsNotFound(err) {
			t.Errorf("the namespace remains: %v", err)
		}
	})
}
