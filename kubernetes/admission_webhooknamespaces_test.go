package kubernetes_test

import (
	"fmt"
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// A request on a Namespace has the namespace of that name, whatever its verb and subresource. A
// webhook that only excludes kube-system, the most common form, lets it be deleted.
func TestRequestsOnNamespaces(t *testing.T) {
	c, h := startWith(t, controlplane.Config{Controllers: controlplane.NoControllers{}}), newHook(t, allow)
	others := func(w *admissionregistrationv1.ValidatingWebhook) {
		w.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn,
				Values: []string{"kube-system"}},
		}}
	}
	c.validating(t, "others", h, rule("*", "", "v1", "namespaces/*"), others) // the objects, too

	namespaces := c.CoreV1().Namespaces()
	ctx := t.Context()
	ns, err := namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "t1"}},
		metav1.CreateOptions{})
	for _, step := range []func() error{
		func() error {
			ns.Labels["a"] = "b"
			ns, err = namespaces.Update(ctx, ns, metav1.UpdateOptions{})
			return err
		},
		func() error {
			ns.Status.Phase = ""
			ns, err = namespaces.UpdateStatus(ctx, ns, metav1.UpdateOptions{})
			return err
		},
		func() error {
			for _, sub := range []string{"", "status"} {
				for kind, body := range map[types.PatchType]string{
					types.MergePatchType:          `{"metadata":{"annotations":{"merge":"` + sub + `."}}}`,
					types.StrategicMergePatchType: `{"metadata":{"annotations":{"strategic":"` + sub + `."}}}`,
					types.JSONPatchType: `[{"op":"add","path":"/metadata/annotations","value":{"json":"` +
						sub + `."}}]`,
					types.ApplyYAMLPatchType: `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"t1","annotations":{"apply` + sub + `":"x"}}}`,
				} {
					if _, err := namespaces.Patch(ctx, "t1", kind, []byte(body),
						metav1.PatchOptions{FieldManager: "test"},
						slices.DeleteFunc([]string{sub}, func(s string) bool { return s == "" })...); err != nil {
						return fmt.Errorf("%s of %q: %w", kind, sub, err)
					}
				}
			}
			return nil
		},
		func() error { return namespaces.Delete(ctx, "t1", metav1.DeleteOptions{}) },
		func() error {
			ns, err = namespaces.Get(ctx, "t1", metav1.GetOptions{})
			if err != nil {
				return err
			}
			ns.Spec.Finalizers = nil
			_, err = namespaces.Finalize(ctx, ns, metav1.UpdateOptions{})
			return err
		},
	} {
		require.NoError(t, err)
		require.NoError(t, step())
	}
	seen := map[string]int{}
	for _, r := range h.reviews() {
		seen[fmt.Sprintf("%s %s", r.Operation, r.SubResource)]++
		if r.Namespace != "t1" || r.Name != "t1" {
			t.Errorf("%s %q: namespace %q, name %q, want both t1", r.Operation, r.SubResource, r.Namespace, r.Name)
		}
	}
	for what, want := range map[string]int{"CREATE ": 1, "UPDATE ": 5, "UPDATE status": 5, "DELETE ": 1,
		"UPDATE finalize": 1} {
		if seen[what] != want {
			t.Errorf("%s: %d reviews, want %d", what, seen[what], want)
		}
	}
	if _, err := namespaces.Get(ctx, "t1", metav1.GetOptions{}); err == nil {
		t.Error("the namespace still exists")
	}
}
