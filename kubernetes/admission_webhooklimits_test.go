package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// Two webhooks that change an object on every call, and request reinvocation, are called only twice
// each, so that the request ends.
func TestReinvocationEnds(t *testing.T) {
	c := startWebhook(t)
	var calls atomic.Int64
	always := func(*review) *admissionv1.AdmissionResponse {
		return patched(fmt.Sprintf(`[{"op":"add","path":"/metadata/annotations","value":{"n":"%d"}}]`,
			calls.Add(1)))(nil)
	}
	first, second := newHook(t, always), newHook(t, always)
	ifNeeded := func(w *admissionregistrationv1.MutatingWebhook) {
		w.ReinvocationPolicy = ptr(admissionregistrationv1.IfNeededReinvocationPolicy)
	}
	c.mutating(t, "a", first, rule("CREATE", "", "v1", "configmaps"), ifNeeded)
	c.mutating(t, "b", second, rule("CREATE", "", "v1", "configmaps"), ifNeeded)
	_, err := c.create(t, configMapWebhook("cm", "a", "b"))
	require.NoError(t, err)
	if a, b := len(first.reviews()), len(second.reviews()); a != 2 || b != 2 {
		t.Errorf("%d and %d calls, want 2 and 2", a, b)
	}
}

// The failurePolicy applies to match conditions that fail or exceed CEL's cost limit of a request.
// A webhook may have at most 64 match conditions.
func TestMatchConditionsThatFail(t *testing.T) {
	c, h := startWebhook(t), newHook(t, allow)
	members := map[string]string{}
	for i := range 300 {
		members[fmt.Sprintf("k%d", i)] = strings.Repeat("x", 100)
	}
	cm := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x"}, Data: members}
	}
	for name, expression := range map[string]string{
		"fails":          `object.data['none'] == 'a'`,
		"costs too much": `object.data.all(a, object.data.all(b, object.data.all(c, a + b + c != 'x')))`,
	} {
		for _, policy := range []admissionregistrationv1.FailurePolicyType{admissionregistrationv1.Fail,
			admissionregistrationv1.Ignore} {
			made := c.validating(t, "w", h, rule("CREATE", "", "v1", "configmaps"),
				func(w *admissionregistrationv1.ValidatingWebhook) {
					w.FailurePolicy = &policy
					w.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "c", Expression: expression}}
				})
			_, err := c.CoreV1().ConfigMaps("default").Create(t.Context(), cm(), metav1.CreateOptions{})
			refused := err != nil
			assert.Equalf(t, refused, policy == admissionregistrationv1.Fail, "%s, %s: %v", name, policy, err)
			assert.Equalf(t, len(h.reviews()), 0, "%s, %s: the webhook was called", name, policy)
			err = c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), made.Name,
				metav1.DeleteOptions{})
			require.NoError(t, err)
		}
	}
	many := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "many"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "many.kelson.dev", SideEffects: ptr(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: ptr(h.URL)},
		}}}
	for i := range 65 {
		many.Webhooks[0].MatchConditions = append(many.Webhooks[0].MatchConditions,
			admissionregistrationv1.MatchCondition{Name: fmt.Sprint("c", i), Expression: "true"})
	}
	_, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), many,
		metav1.CreateOptions{})
	assert.ErrorContainsf(t, err, "must have at most 64 items", "65 conditions")
}

// The labels of another namespace can't imitate a namespace that a webhook exempts by name.
func TestExemptNamespaces(t *testing.T) {
	c, h := startWebhook(t), newHook(t, deny)
	ctx := t.Context()
	_, err := c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "tenant", Labels: map[string]string{corev1.LabelMetadataName: "kube-system"},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	c.validating(t, "w", h, rule("CREATE", "", "v1", "configmaps"), func(w *admissionregistrationv1.ValidatingWebhook) {
		w.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system"}},
		}}
	})
	create := func(namespace string) error {
		_, err := c.CoreV1().ConfigMaps(namespace).Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x"}}, metav1.CreateOptions{})
		return err
	}
	assert.NoErrorf(t, create("kube-system"), "the exempt namespace")
	assert.ErrorContainsf(t, create("tenant"), "denied the request", "a namespace created with the label")
	for _, patch := range []string{`{"metadata":{"labels":{"kubernetes.io/metadata.name":"kube-system"}}}`,
		`{"metadata":{"labels":{"kubernetes.io/metadata.name":null}}}`} {
		// the server may refuse or correct the label
		_, _ = c.CoreV1().Namespaces().Patch(ctx, "tenant", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		assert.ErrorContainsf(t, create("tenant"), "denied the request", "after %s", patch)
	}
}

// Ephemeral containers are added through their own subresource: a webhook for
// pods/ephemeralcontainers receives the whole pod and can refuse them; a webhook only for pods is
// not called.
func TestEphemeralContainers(t *testing.T) {
	c := startWebhook(t)
	ctx := t.Context()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	_, err := c.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	require.NoError(t, err)
	pods, ephemeral := newHook(t, deny), newHook(t, func(r *review) *admissionv1.AdmissionResponse {
		after, before := &corev1.Pod{}, &corev1.Pod{}
		if json.Unmarshal(r.Object.Raw, after) != nil || json.Unmarshal(r.OldObject.Raw, before) != nil ||
			len(before.Spec.EphemeralContainers) != 0 {
			return nil
		}
		for _, e := range after.Spec.EphemeralContainers {
			if e.Image == "evil" {
				return deny(r)
			}
		}
		return allow(r)
	})
	c.validating(t, "pods", pods, rule("UPDATE", "", "v1", "pods"))
	c.validating(t, "ephemeral", ephemeral, rule("UPDATE", "", "v1", "pods/ephemeralcontainers"))
	add := func(image string) error {
		patch := `{"spec":{"ephemeralContainers":[{"name":"e","image":"` + image + `"}]}}`
		_, err := c.CoreV1().Pods("default").Patch(ctx, "p", types.StrategicMergePatchType, []byte(patch),
			metav1.PatchOptions{}, "ephemeralcontainers")
		return err
	}
	if err := add("evil"); err == nil || !strings.Contains(err.Error(),
		`admission webhook "ephemeral.kelson.dev" denied the request`) {
		t.Errorf("an image that is refused: %v", err)
	}
	assert.NoErrorf(t, add("good"), "another one")
	if n := len(pods.reviews()); n != 0 {
		t.Errorf("the webhook for pods was called %d times", n)
	}
	for _, r := range ephemeral.reviews() {
		if r.Kind.Kind != "Pod" || r.SubResource != "ephemeralcontainers" || r.Operation != admissionv1.Update {
			t.Errorf("review of %s %s/%s", r.Operation, r.Kind.Kind, r.SubResource)
		}
	}
}
