package explore_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/explore"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// O8 finds an operator that does not undo the effects of a change, and accepts one that does.
func TestFlip(t *testing.T) {
	for name, undoes := range map[string]bool{"faulty": false, "correct": true} {
		t.Run(name, func(t *testing.T) {
			s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result,
				error) {
				if cm.Data["extra"] == "yes" {
					return operator.Result{}, createSecret(ctx, c, cm, "-extra", "a")
				}
				if undoes {
					extra := &corev1.Secret{}
					extra.Namespace, extra.Name = cm.Namespace, cm.Name+"-extra"
					if err := c.Delete(ctx, extra); err != nil && !apierrors.IsNotFound(err) {
						return operator.Result{}, err
					}
				}
				return operator.Result{}, nil
			})
			s.Inputs = append(s.Inputs, explore.Flip(configMap("web"), func(cm *corev1.ConfigMap) {
				cm.Data = map[string]string{"extra": "yes"}
			}))
			report, err := explore.Explore(t, s, explore.Options{For: time.Hour, OneFault: true})
			if undoes {
				// It deletes any Secret of the name, which O13 finds.
				report.Alarms = slices.DeleteFunc(report.Alarms, func(a explore.Alarm) bool {
					return a.Oracle == "O13"
				})
				if err != nil || len(report.Alarms) > 0 {
					t.Errorf("%v, %v", err, report.Alarms)
				}
				return
			}
			if want := "(O8): secrets default/web-extra: exists, and did not before"; err != nil ||
				len(report.Alarms) != 1 || !strings.Contains(report.Alarms[0].String(), want) {
				t.Errorf("%v, %v, want %q", err, report.Alarms, want)
			}
		})
	}
}

// firstWins creates the Secret web with the name of the kind whose reconciler runs first.
func firstWins(ctx context.Context, c client.Client, kind, name string) (operator.Result, error) {
	if name != "web" {
		return operator.Result{}, nil
	}
	secret := &corev1.Secret{Data: map[string][]byte{"first": []byte(kind)}}
	secret.Namespace, secret.Name = "default", "web"
	if err := c.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return operator.Result{}, err
	}
	return operator.Result{}, nil
}

type eachService struct{ operator.Deps }

func (r *eachService) Reconcile(ctx context.Context, s *corev1.Service) (operator.Result, error) {
	return firstWins(ctx, r.Client, "Service", s.Name)
}

// An end state that depends only on the order of events is a separate alarm.
func TestOrder(t *testing.T) {
	cms := func(d operator.Deps) *each {
		return &each{d, func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
			return firstWins(ctx, c, "ConfigMap", cm.Name)
		}}
	}
	s := explore.Scenario{
		Operator: explore.Parts(operator.Name("each"), operator.For(cms),
			operator.For(func(d operator.Deps) *eachService { return &eachService{d} })),
		Inputs: []explore.Input{explore.Do("create both", func(ctx context.Context, c client.Client) error {
			service := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
			service.Namespace, service.Name = "default", "web"
			return errors.Join(c.Create(ctx, configMap("web")), c.Create(ctx, service))
		})},
		Keep: true,
	}
	report, err := explore.Explore(t, s, explore.Options{For: time.Hour, OneFault: true})
	require.NoError(t, err)
	for _, a := range report.Alarms {
		if a.Oracle == "O5" && strings.HasPrefix(a.Plan.String(), "order ") {
			return
		}
	}
	t.Errorf("no alarm O5 in %v", report.Alarms)
}

// O7: replicas, claims and conditions say whether a managed object is healthy.
func TestUnhealthy(t *testing.T) {
	type object = map[string]any
	for name, test := range map[string]struct {
		id     string
		object object
		want   string
	}{
		"replicas": {"statefulsets.apps default/web",
			object{"spec": object{"replicas": int64(3)}, "status": object{"readyReplicas": int64(2)}},
			"2 of 3 replicas are ready"},
		"one replica": {"deployments.apps default/web", object{"spec": object{}, "status": object{}},
			"0 of 1 replicas are ready"},
		"ready": {"deployments.apps default/web",
			object{"spec": object{"replicas": int64(1)}, "status": object{"readyReplicas": int64(1)}}, ""},
		"daemons": {"daemonsets.apps default/web",
			object{"status": object{"desiredNumberScheduled": int64(2), "numberReady": int64(1)}},
			"1 of 2 pods are ready"},
		"claim": {"persistentvolumeclaims default/web", object{"status": object{"phase": "Pending"}},
			"its phase is Pending"},
		"condition": {"shops.example.com default/web",
			object{"status": object{"conditions": []any{object{"type": "Ready", "status": "False"}}}},
			"its condition Ready is False"},
		"not a verdict": {"shops.example.com default/web",
			object{"status": object{"conditions": []any{object{"type": "Stalled", "status": "False"}}}}, ""},
		"pod": {"pods default/web",
			object{"status": object{"phase": "Failed",
				"conditions": []any{object{"type": "Ready", "status": "False"}}}}, ""},
	} {
		assert.Equalf(t, explore.Unhealthy(test.id, test.object), test.want, "%s", name)
	}
}

// Plans also have faults at writes that the operator makes only after another fault.
func TestPointsAfterFaults(t *testing.T) {
	require.Long(t, "explores for several seconds")
	s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		err := createSecret(ctx, c, cm, "-key", "1")
		if err == nil {
			return operator.Result{}, nil
		}
		// The bug: a process that is killed here does not remove the note.
		for _, note := range []map[string]string{{"failed": "yes"}, nil} {
			before := cm.DeepCopy()
			cm.Annotations = note
			err = errors.Join(err, c.Patch(ctx, cm, client.MergeFrom(before)))
		}
		return operator.Result{}, err
	})
	report, err := explore.Explore(t, s, explore.Options{For: time.Hour, Plans: 200,
		Kinds: []explore.Kind{explore.Internal}, UntilAlarm: true})
	require.NoError(t, err)
	t.Log(report.Summary())
	const want = "kill-after patch configmaps default/web #1"
	for _, alarm := range report.Alarms {
		if strings.HasSuffix(alarm.Plan.String(), "; "+want) && len(alarm.Plan) == 2 {
			return
		}
	}
	t.Errorf("%v, want one that ends with %s", report.Alarms, want)
}

// The report names objects that the operator leaves behind without any fault, unless not all inputs
// were deleted.
func TestRemaining(t *testing.T) {
	kept := func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		if cm.Name != "web" {
			return operator.Result{}, nil
		}
		secret := &corev1.Secret{}
		secret.Namespace, secret.Name = cm.Namespace, "kept"
		return operator.Result{}, errors.Join(ignoreExisting(c.Create(ctx, secret)),
			createSecret(ctx, c, cm, "-key", "a"))
	}
	for name, test := range map[string]struct {
		more []explore.Input
		want []string
	}{
		"all inputs are deleted": {nil, []string{"secrets default/kept"}},
		"an input remains": {[]explore.Input{explore.Do("create another",
			func(ctx context.Context, c client.Client) error {
				return c.Create(ctx, configMap("other"))
			})}, nil},
	} {
		s := eachConfigMap(kept)
		s.Inputs = append(s.Inputs, test.more...)
		report, err := explore.Explore(t, s, explore.Options{Plans: 1})
		if err != nil || len(report.Alarms) != len(test.want) || !slices.Equal(report.Remaining, test.want) {
			t.Errorf("%s: %v, alarms %v, remaining %q, want %q", name, err, report.Alarms, report.Remaining, test.want)
		}
	}
}
