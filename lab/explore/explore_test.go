package explore_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/explored"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// twoSecrets creates two Secrets for each ConfigMap.
type twoSecrets struct {
	operator.Deps
	checkBoth bool
}

func (r *twoSecrets) Reconcile(ctx context.Context, cm *corev1.ConfigMap) (operator.Result, error) {
	if cm.Name == "kube-root-ca.crt" || cm.DeletionTimestamp != nil {
		return operator.Result{}, nil
	}
	for i, suffix := range []string{"-key", "-cert"} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name + suffix,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cm,
				corev1.SchemeGroupVersion.WithKind("ConfigMap"))}}}
		if i == 0 || r.checkBoth {
			err := r.Client.Get(ctx, client.KeyOf(secret), &corev1.Secret{})
			switch {
			case err == nil && r.checkBoth:
				continue
			case err == nil:
				return operator.Result{}, nil // the bug: it checks only one of the two
			case !apierrors.IsNotFound(err):
				return operator.Result{}, err
			}
		}
		if err := r.Client.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
			return operator.Result{}, err
		}
	}
	return operator.Result{}, nil
}

func twoSecretsScenario(correct bool) explore.Scenario {
	return explore.Scenario{
		Operator: explore.Parts(operator.Name("secrets"), operator.For(func(d operator.Deps) *twoSecrets {
			return &twoSecrets{d, correct}
		}, operator.Owns[corev1.Secret]())),
		Inputs: []explore.Input{explore.Create(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})},
	}
}

// A kill between two creates is found; the correct operator raises no alarm.
func TestFindsTheMissingSecret(t *testing.T) {
	for name, correct := range map[string]bool{"faulty": false, "correct": true} {
		t.Run(name, func(t *testing.T) {
			options := explore.Options{For: time.Hour, OneFault: true}
			if !correct {
				options.Kinds = []explore.Kind{explore.KillBefore, explore.KillAfter, explore.Lose}
			}
			report, err := explore.Explore(t, twoSecretsScenario(correct), options)
			require.NoError(t, err)
			t.Log(report.Summary())
			if correct {
				for _, a := range report.Alarms {
					t.Errorf("false alarm: %s\nfaults: %s", a, a.Plan)
				}
				return
			}
			if len(report.Alarms) == 0 {
				t.Fatal("no alarm")
			}
			alarm := report.Alarms[0]
			if want := "kill-after create secrets default/web-key #1"; alarm.Plan.String() != want ||
				alarm.Oracle != "O1" || !strings.Contains(alarm.Detail, "secrets default/web-cert: is missing") {
				t.Errorf("%s\nfaults: %s, want %s", alarm, alarm.Plan, want)
			}
			before, last := alarm.Curve[0], alarm.Curve[len(alarm.Curve)-1]
			if before.Failures != 0 || last.Failures != last.Runs || strings.HasPrefix(before.Text, "FAULT") {
				t.Errorf("curve %+v, want no failures before the fault and only failures at the end", alarm.Curve)
			}
			for _, run := range []*explored.Run{explore.FailureOf(alarm).Passing,
				explore.FailureOf(alarm).Failing} {
				if len(run.Times) != len(run.Steps) || !slices.IsSorted(run.Times) || run.Times[0] != 0 ||
					run.Times[len(run.Times)-1] == 0 {
					t.Errorf("times of the steps: %v", run.Times)
				}
			}
		})
	}
}

// Plans can be written and read, and wrong ones are refused.
func TestParsePlan(t *testing.T) {
	for _, text := range []string{
		"no faults", "order 7", "kill-before update ats.cnat.programming-kubernetes.info/status default/at #2",
		"cut modified pods default/web-* #1; hold-past-input delete namespaces x #3",
		`set-field after shops.example.com default/a #1 spec.name="x\u003b y"`,
		"delete-child after secrets default/web-* #2",
	} {
		if plan, err := explore.ParsePlan(text); err != nil || plan.String() != text {
			t.Errorf("%q: %q, %v", text, plan, err)
		}
	}
	for text, want := range map[string]string{
		"kill-after":                              "want KIND VERB RESOURCE OBJECT #N",
		"order x":                                 "the seed is not a number",
		"cut create pods default/web #1":          `kind "cut" is not one of`,
		"set-field after pods default/web #1":     "only [set-field",
		"set-field after pods default/web #1 a=b": "the value b is not JSON",
		"kill-after after pods default/web #1":    `kind "kill-after" is not one of [`,
		"kill-after create pods default/web #0":   "want KIND VERB RESOURCE OBJECT #N",
	} {
		_, err := explore.ParsePlan(text)
		assert.ErrorContainsf(t, err, want, "%q", text)
	}
}
