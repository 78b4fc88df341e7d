package reconcile

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/operator/client"
)

// The patch of a status has the changed fields, and preserves numbers.
func TestStatusPatch(t *testing.T) {
	budget := func(status policyv1.PodDisruptionBudgetStatus) client.Object {
		return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7"}, Status: status}
	}
	dynamic := func(status any) client.Object {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"resourceVersion": "7"},
			"status": status}}
	}
	const large = 1<<53 + 1 // no float64
	for name, tt := range map[string]struct {
		before, after client.Object
		want          string // of the status; empty if there is nothing to write
	}{
		"the same": {budget(policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 1}),
			budget(policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 1}), ""},
		"a number": {budget(policyv1.PodDisruptionBudgetStatus{}),
			budget(policyv1.PodDisruptionBudgetStatus{CurrentHealthy: 1}), `{"currentHealthy":1}`},
		"a large number": {budget(policyv1.PodDisruptionBudgetStatus{}),
			budget(policyv1.PodDisruptionBudgetStatus{ObservedGeneration: large}),
			`{"observedGeneration":9007199254740993}`},
		"large numbers that differ by one": {dynamic(map[string]any{"n": int64(large - 1)}),
			dynamic(map[string]any{"n": int64(large)}), `{"n":9007199254740993}`},
		"gone": {dynamic(map[string]any{"a": "b", "c": map[string]any{"d": "e"}}),
			dynamic(map[string]any{"c": map[string]any{}}), `{"a":null,"c":{"d":null}}`},
		"the first": {dynamic(nil), dynamic(map[string]any{"list": []any{"<", 1.5, true}}),
			`{"list":["\u003c",1.5,true]}`},
		"the last": {dynamic(map[string]any{"a": "b"}), dynamic(nil), `{"a":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			patch, _, err := statusPatch(tt.before, tt.after)
			if err != nil || tt.want == "" {
				if err != nil || patch != nil {
					t.Fatalf("%v %v", patch, err)
				}
				return
			}
			data, err := patch.Data(tt.after)
			if want := `{"metadata":{"resourceVersion":"7"},"status":` + tt.want + `}`; err != nil ||
				string(data) != want {
				t.Errorf("%s %v, want %s", data, err, want)
			}
		})
	}
}
