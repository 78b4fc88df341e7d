package explore_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/lab/explore"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// marking is an operator that marks each ConfigMap with an annotation. The write gets the object as
// it was read, and a marked copy of it.
func marking(write func(ctx context.Context, c client.Client, read, marked *corev1.ConfigMap) error) explore.Scenario {
	s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		if cm.Name == "kube-root-ca.crt" || cm.DeletionTimestamp != nil || cm.Annotations["seen"] != "" {
			return operator.Result{}, nil
		}
		marked := cm.DeepCopy()
		if marked.Annotations == nil {
			marked.Annotations = map[string]string{}
		}
		marked.Annotations["seen"] = "yes"
		return operator.Result{}, write(ctx, c, cm, marked)
	})
	web := configMap("web")
	web.Data = map[string]string{"size": "1"}
	s.Inputs = []explore.Input{explore.Create(web)}
	return s
}

// F9, O13: an operator that overwrites a change that it has not seen is found. One that cannot, or
// that resets the field in any case because it owns it, raises no alarm.
func TestForeignWrite(t *testing.T) {
	withFinalizer := func(options ...client.PatchOption) func(context.Context, client.Client, *corev1.ConfigMap,
		*corev1.ConfigMap) error {
		return func(ctx context.Context, c client.Client, read, marked *corev1.ConfigMap) error {
			patch := client.MergeFrom(read, options...)
			marked.Finalizers = append(marked.Finalizers, "example.com/mark")
			return c.Patch(ctx, marked, patch)
		}
	}
	const annotation, finalizer, size = `metadata.annotations.foreign="yes"`,
		`metadata.finalizers=["explore.kelson.dev/foreign"]`, `data.size="eA=="`
	for name, test := range map[string]struct {
		write func(ctx context.Context, c client.Client, read, marked *corev1.ConfigMap) error
		plan  string // after "foreign-write "
		lost  bool
	}{
		"update": {func(ctx context.Context, c client.Client, _, marked *corev1.ConfigMap) error {
			return c.Update(ctx, marked)
		}, "update configmaps default/web #1 " + annotation, false},
		"update without a version": {func(ctx context.Context, c client.Client, _, marked *corev1.ConfigMap) error {
			marked.ResourceVersion = "" // the bug
			return c.Update(ctx, marked)
		}, "update configmaps default/web #1 " + annotation, true},
		"patch": {func(ctx context.Context, c client.Client, read, marked *corev1.ConfigMap) error {
			return c.Patch(ctx, marked, client.MergeFrom(read))
		}, "patch configmaps default/web #1 " + annotation, false},
		"patch of all data": {func(ctx context.Context, c client.Client, read, marked *corev1.ConfigMap) error {
			before := read.DeepCopy()
			before.Data = nil // the bug
			return c.Patch(ctx, marked, client.MergeFrom(before))
		}, "patch configmaps default/web #1 " + size, true},
		"patch of finalizers": {withFinalizer(), "patch configmaps default/web #1 " + finalizer, true},
		"patch of finalizers with a lock": {withFinalizer(client.OptimisticLock),
			"patch configmaps default/web #1 " + finalizer, false},
		"server-side apply": {func(ctx context.Context, c client.Client, read, _ *corev1.ConfigMap) error {
			return c.Apply(ctx, mark(read))
		}, "apply configmaps default/web #1 " + size, false},
		"apply of all data": {func(ctx context.Context, c client.Client, read, _ *corev1.ConfigMap) error {
			applied := mark(read)
			applied.Data = read.Data // the bug
			return c.Apply(ctx, applied, client.ForceOwnership)
		}, "apply configmaps default/web #1 " + size, true},
		"replacement of all annotations": {func(ctx context.Context, c client.Client, _,
			marked *corev1.ConfigMap) error {
			// it owns them
			marked.ResourceVersion, marked.Annotations = "", map[string]string{"seen": "yes"}
			return c.Update(ctx, marked)
		}, "update configmaps default/web #1 " + annotation, false},
		"reset of a field": {func(ctx context.Context, c client.Client, read, marked *corev1.ConfigMap) error {
			before := read.DeepCopy()
			before.Data, marked.Data = nil, map[string]string{"size": "3"} // it owns the size
			return c.Patch(ctx, marked, client.MergeFrom(before))
		}, "patch configmaps default/web #1 " + size, false},
	} {
		t.Run(name, func(t *testing.T) {
			plan := "foreign-write " + test.plan
			got, steps := replayed(t, marking(test.write), plan)
			if lost := strings.HasPrefix(got, "O13 "); lost != test.lost || !lost && got != "" ||
				!strings.Contains(steps, "FAULT "+plan) {
				t.Errorf("alarms %q, want O13: %v\n%s", got, test.lost, steps)
			}
		})
	}
}

// mark returns the annotation of an object for an apply.
func mark(cm *corev1.ConfigMap) *corev1.ConfigMap {
	return &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name,
			Annotations: map[string]string{"seen": "yes"}}}
}

// F9, O13: explorations try the writes of other clients, which are equal in each run.
func TestForeignWriteIsExplored(t *testing.T) {
	for version, want := range map[string]bool{"": true, "as it was read": false} {
		s := marking(func(ctx context.Context, c client.Client, _, marked *corev1.ConfigMap) error {
			if version == "" {
				marked.ResourceVersion = "" // the bug
			}
			return c.Update(ctx, marked)
		})
		const plan = `foreign-write update configmaps default/web #1 metadata.annotations.foreign="yes"`
		alarms := alarmsOf(t, s, explore.ForeignWrite, explore.Conflict, explore.Lose, explore.KillAfter)
		if _, found := alarms["O13 "+plan]; found != want || !want && len(alarms) > 0 {
			t.Errorf("version %q: %v, want an alarm O13: %v", version, alarms, want)
		}
		if repetition, err := explore.Repeat(t, s, plan, 3); err != nil || repetition.Unequal > 0 {
			t.Errorf("version %q: %v, %v", version, repetition, err)
		}
	}
}

// O13: the library's finalizers don't overwrite those of others.
func TestForeignWriteBesideFinalizer(t *testing.T) {
	s := explore.Scenario{
		Operator: explore.Parts(operator.Name("guard"), operator.For(func(d operator.Deps) *guarded {
			return &guarded{d}
		})),
		Inputs: []explore.Input{explore.Create(configMap("web"))},
	}
	if alarms := alarmsOf(t, s, explore.ForeignWrite, explore.Finalizer, explore.Lose,
		explore.KillAfter); len(alarms) > 0 {
		t.Errorf("false alarms: %v", alarms)
	}
	const plan = `foreign-write patch configmaps default/web #1 metadata.finalizers=["explore.kelson.dev/foreign"]`
	if got, steps := replayed(t, s, plan); got != "" || !strings.Contains(steps, "FAULT "+plan) {
		t.Errorf("alarms %q\n%s", got, steps)
	}
}
