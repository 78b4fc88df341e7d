package explore_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/internal/require"
	"kelson.dev/lab/explore"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// cleaning creates a Secret for each ConfigMap, and deletes it in its finalizer. The bug: it
// deletes any Secret of this name.
type cleaning struct {
	operator.Deps
	correct bool
	name    func(*corev1.ConfigMap) string // of the Secret
	apply   bool                           // create it by an apply
}

func (r *cleaning) Reconcile(ctx context.Context, cm *corev1.ConfigMap) (operator.Result, error) {
	if cm.Name != "web" {
		return operator.Result{}, nil
	}
	secret := ownedBy(cm, &corev1.Secret{})
	secret.Name = r.name(cm)
	if r.apply {
		secret.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
		data, err := json.Marshal(secret)
		if err == nil { // the method Apply would send a create first
			err = r.Client.Patch(ctx, secret, client.RawPatch(types.ApplyPatchType, data))
		}
		return operator.Result{}, err
	}
	return operator.Result{}, ignoreExisting(r.Client.Create(ctx, secret))
}

func (r *cleaning) Finalize(ctx context.Context, cm *corev1.ConfigMap) (operator.Result, error) {
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, client.Key{Namespace: cm.Namespace, Name: r.name(cm)}, secret)
	if apierrors.IsNotFound(err) || err == nil && r.correct && !metav1.IsControlledBy(secret, cm) {
		return operator.Result{}, nil
	}
	return operator.Result{}, errors.Join(err, client.IgnoreNotFound(r.Client.Delete(ctx, secret)))
}

func cleans(r cleaning) explore.Scenario {
	return explore.Scenario{
		Operator: explore.Parts(operator.Name("clean"), operator.For(func(d operator.Deps) *cleaning {
			r := r
			r.Deps = d
			return &r
		}, operator.Owns[corev1.Secret]())),
		Inputs: []explore.Input{explore.Create(configMap("web"))},
	}
}

// An operator that deletes an object of another client with the name that it would have given to
// its own is found, also if the name contains a UID, which differs between runs. One that leaves
// it raises no alarm.
func TestOccupiedName(t *testing.T) {
	for name, test := range map[string]struct {
		name func(*corev1.ConfigMap) string
		plan string
	}{
		"fixed": {func(cm *corev1.ConfigMap) string {
			return cm.Name + "-key"
		}, "create secrets default/web-key #1"},
		"with a UID": {func(cm *corev1.ConfigMap) string {
			return cm.Name + "-" + string(cm.UID)
		}, "create secrets default/web-* #1"},
	} {
		for _, correct := range []bool{false, true} {
			report, err := explore.Explore(t, cleans(cleaning{correct: correct, name: test.name}), explore.Options{
				For: time.Hour, OneFault: true, Kinds: []explore.Kind{explore.Occupied}})
			if err != nil || report.Plans == 0 {
				t.Fatalf("%s: %v, no plans: %s", name, err, report.Summary())
			}
			if plans := plansOf(report.Alarms); len(plans) > 0 == correct ||
				!correct && (plans[0] != "occupied "+test.plan || report.Alarms[0].Oracle != "O13") {
				t.Errorf("%s, correct %v: %v", name, correct, report.Alarms)
			}
		}
	}
}

// An apply that creates an object can exceed a quota, and its name can be occupied.
func TestCreatingAppliesHaveFaults(t *testing.T) {
	s := cleans(cleaning{correct: true, apply: true, name: func(cm *corev1.ConfigMap) string {
		return cm.Name + "-key"
	}})
	report, err := explore.Explore(t, s, explore.Options{For: time.Hour, OneFault: true,
		Kinds: []explore.Kind{explore.Occupied, explore.Quota}})
	if err != nil || report.Plans != 2 || len(report.Alarms) > 0 {
		t.Errorf("%v, %d plans, want 2 and no alarms: %v, %s", err, report.Plans, report.Alarms, report.Summary())
	}
	if _, steps := replayed(t, s, "quota apply secrets default/web-key #1"); !strings.Contains(steps,
		"request: apply secrets default/web-key (403, quota)") {
		t.Errorf("the quota is not exceeded\n%s", steps)
	}
}

// A name that the server generates cannot be occupied, and the report says so.
func TestGeneratedNamesCannotBeOccupied(t *testing.T) {
	s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		var all corev1.SecretList
		if err := c.List(ctx, &all, client.InNamespace(cm.Namespace)); err != nil || len(all.Items) > 0 {
			return operator.Result{}, err
		}
		secret := ownedBy(cm, &corev1.Secret{})
		secret.Name, secret.GenerateName = "", "key-"
		return operator.Result{}, c.Create(ctx, secret)
	})
	report, err := explore.Explore(t, s, explore.Options{Check: true})
	require.NoError(t, err)
	const want = "not tried: occupied: the server generates the names of the objects that the operator creates"
	if summary := report.Summary(); !strings.Contains(summary, want) ||
		strings.Contains(summary, "the operator creates no objects") {
		t.Errorf("%s\nwant %q", summary, want)
	}
}
