package kubernetes_test

import (
	"strings"
	"testing"
	"testing/synctest"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

// The status has the type-check warnings of each resource that the policy matches, and the
// generation that was checked.
func TestTypeChecking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env := testenv.New(t)
		policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionregistrationv1.RuleWithOperations{
						Operations: []admissionregistrationv1.OperationType{"CREATE"},
						Rule: admissionregistrationv1.Rule{APIGroups: []string{"apps"},
							APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
					},
				}}},
				Validations: []admissionregistrationv1.Validation{
					{Expression: "object.spec.replicas > 1"},
					{Expression: "object.spec.replicas > '1'", MessageExpression: "string(object.spec.nonsense)"},
				},
			},
		}
		env.Create(t, policy)
		env.Settle(t)
		read := func(name string) *admissionregistrationv1.ValidatingAdmissionPolicy {
			got, err := client.Get[admissionregistrationv1.ValidatingAdmissionPolicy](t.Context(), env.Client(),
				client.Key{Name: name})
			require.NoError(t, err)
			return got
		}
		got := read("p")
		if got.Status.ObservedGeneration != 1 || got.Status.TypeChecking == nil ||
			len(got.Status.TypeChecking.ExpressionWarnings) != 2 {
			t.Fatalf("status %+v", got.Status)
		}
		for i, want := range []struct{ field, text string }{
			{"spec.validations[1].expression", "found no matching overload for '_>_' applied to '(int, string)'"},
			{"spec.validations[1].messageExpression", "undefined field 'nonsense'"},
		} {
			w := got.Status.TypeChecking.ExpressionWarnings[i]
			if w.FieldRef != want.field || !strings.Contains(w.Warning, want.text) ||
				!strings.HasPrefix(w.Warning, "apps/v1, Kind=Deployment: ") {
				t.Errorf("warning %d: %+v, want %+v", i, w, want)
			}
		}

		got.Spec.Validations = got.Spec.Validations[:1]
		require.NoError(t, env.Client().Update(t.Context(), got))
		env.Settle(t)
		if got := read("p"); got.Status.ObservedGeneration != 2 ||
			got.Status.TypeChecking != nil && len(got.Status.TypeChecking.ExpressionWarnings) != 0 {
			t.Errorf("status of the corrected policy %+v", got.Status)
		}

		good := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "good"},
			Spec: got.Spec}
		env.Create(t, good)
		env.Settle(t)
		// Clients wait for status.typeChecking: an empty result means that the check is done.
		if got := read("good"); got.Status.ObservedGeneration != 1 || got.Status.TypeChecking == nil ||
			len(got.Status.TypeChecking.ExpressionWarnings) != 0 {
			t.Errorf("status of a good policy %+v", got.Status)
		}
	})
}
