package explore_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// restarts is a scenario of an operator that keeps a Secret with the version of a ConfigMap, and
// restarts a workload when the Secret changes. The user changes the version.
func restarts(restart func(ctx context.Context, c client.Client, cm *corev1.ConfigMap, changed bool) error,
	owns ...operator.Option) explore.Scenario {
	web := configMap("web")
	web.Data = map[string]string{"version": "1"}
	do := func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		if cm.Name != "web" {
			return operator.Result{}, nil
		}
		secret := &corev1.Secret{}
		err := c.Get(ctx, client.Key{Namespace: cm.Namespace, Name: cm.Name + "-key"}, secret)
		changed := false
		switch {
		case apierrors.IsNotFound(err):
			err = createSecret(ctx, c, cm, "-key", cm.Data["version"])
		case err == nil && string(secret.Data["value"]) != cm.Data["version"]:
			secret.Data = map[string][]byte{"value": []byte(cm.Data["version"])}
			err, changed = c.Update(ctx, secret), true
		}
		if err != nil {
			return operator.Result{}, err
		}
		return operator.Result{}, restart(ctx, c, cm, changed)
	}
	return explore.Scenario{
		Operator: explore.Parts(operator.Name("each"), operator.For(func(d operator.Deps) *each {
			return &each{d, do}
		}, append(owns, operator.Owns[corev1.Secret]())...)),
		Inputs: []explore.Input{explore.Create(web), explore.Edit(configMap("web"), func(cm *corev1.ConfigMap) {
			cm.Data = map[string]string{"version": "2"}
		})},
	}
}

// ownedBy makes an object one of a ConfigMap.
func ownedBy[T client.Object](cm *corev1.ConfigMap, obj T) T {
	obj.SetNamespace(cm.Namespace)
	obj.SetName(cm.Name)
	obj.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(cm,
		corev1.SchemeGroupVersion.WithKind("ConfigMap"))})
	return obj
}

var oneContainer = corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}}

// deletesPod restarts a Pod by deleting it. The bug: it does so only after its own write of the
// Secret. The correct operator records the version in the Pod.
func deletesPod(correct bool) explore.Scenario {
	return restarts(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap, changed bool) error {
		pod := ownedBy(cm, &corev1.Pod{Spec: oneContainer})
		if correct {
			pod.Annotations = map[string]string{"version": cm.Data["version"]}
		}
		current := &corev1.Pod{}
		err := c.Get(ctx, client.KeyOf(pod), current)
		if apierrors.IsNotFound(err) {
			return ignoreExisting(c.Create(ctx, pod))
		}
		if err == nil && metav1.IsControlledBy(current, cm) && current.DeletionTimestamp == nil &&
			(changed && !correct || correct && current.Annotations["version"] != cm.Data["version"]) {
			err = c.Delete(ctx, current, client.Preconditions{UID: current.UID})
		}
		return client.IgnoreNotFound(err)
	}, operator.Owns[corev1.Pod]())
}

// touchesTemplate restarts a StatefulSet by the time in an annotation of its template. The bug is
// the same.
func touchesTemplate(correct bool) explore.Scenario {
	return restarts(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap, changed bool) error {
		labels := map[string]string{"app": cm.Name}
		set := ownedBy(cm, &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{
			MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels,
				Annotations: map[string]string{"at": time.Now().Format(time.RFC3339)}}, Spec: oneContainer}}})
		current := &appsv1.StatefulSet{}
		err := c.Get(ctx, client.KeyOf(set), current)
		if apierrors.IsNotFound(err) {
			if correct {
				set.Annotations = map[string]string{"version": cm.Data["version"]}
			}
			return ignoreExisting(c.Create(ctx, set))
		}
		if err == nil && (changed && !correct || correct && current.Annotations["version"] != cm.Data["version"]) {
			if correct {
				current.Annotations = map[string]string{"version": cm.Data["version"]}
			}
			current.Spec.Template.Annotations = set.Spec.Template.Annotations
			err = c.Update(ctx, current)
		}
		return err
	}, operator.Owns[appsv1.StatefulSet]())
}

// A run whose end is the same, but in which something was not replaced or restarted, raises an
// alarm, and only that.
func TestDoneLessOften(t *testing.T) {
	for name, test := range map[string]struct {
		scenario func(correct bool) explore.Scenario
		nodes    bool
		want     string
	}{
		"a Pod is not replaced": {deletesPod, false,
			"pods default/web: created once and deleted never, without faults twice and once"},
		"a template is not touched": {touchesTemplate, false,
			"statefulsets.apps default/web: written with another time or another random value never, without faults once"},
		"Pods of a template are not replaced": {touchesTemplate, true,
			"the Pods of StatefulSet default/web: created once and deleted never, without faults twice and once"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.nodes && testing.Short() {
				t.Skip("explores for several seconds")
			}
			const plan = "kill-after update secrets default/web-key #1"
			for _, correct := range []bool{false, true} {
				s := test.scenario(correct)
				if test.nodes {
					s.Env = []testenv.Option{testenv.Workloads(), testenv.Nodes(controlplane.Simulated{})}
				}
				got, steps := replayed(t, s, plan)
				if found := strings.HasPrefix(got, "O2 ") && strings.Contains(got, test.want); found == correct ||
					correct && got != "" {
					t.Errorf("correct %v: %q, want %q\n%s", correct, got, test.want, steps)
				}
				if correct && !testing.Short() {
					// These faults change how often Pods are created. Other tests have the rest.
					alarms := alarmsOf(t, s, explore.KillAfter, explore.KillStale, explore.Lose, explore.DeletePod,
						explore.LoseNode)
					if len(alarms) > 0 {
						t.Errorf("false alarms: %v", alarms)
					}
				}
			}
		})
	}
}

// An operator that updates an object far more often after a fault than without it raises an alarm.
func TestUpdatedMoreOften(t *testing.T) {
	for name, test := range map[string]struct {
		rounds int
		want   string
	}{
		"many": {30, "O2 secrets default/web-key is updated 31 times, without faults once"},
		"few":  {5, ""},
	} {
		s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
			if cm.Name != "web" {
				return operator.Result{}, nil
			}
			if err := createSecret(ctx, c, cm, "-key", "a"); err != nil {
				return operator.Result{}, err
			}
			secret := &corev1.Secret{}
			err := c.Get(ctx, client.Key{Namespace: cm.Namespace, Name: cm.Name + "-key"}, secret)
			if err != nil || secret.Annotations["done"] != "" {
				return operator.Result{}, err
			}
			secret.Annotations = map[string]string{"done": "yes"}
			err = c.Update(ctx, secret)
			if !apierrors.IsInternalError(err) {
				return operator.Result{}, err
			}
			for n := range test.rounds { // the bug
				secret.Annotations = map[string]string{"round": strconv.Itoa(n)}
				if err := c.Update(ctx, secret); err != nil {
					return operator.Result{}, err
				}
			}
			secret.Annotations = map[string]string{"done": "yes"}
			return operator.Result{}, c.Update(ctx, secret)
		})
		if got, steps := replayed(t, s, "internal-error update secrets default/web-key #1"); got != test.want {
			t.Errorf("%s: %q, want %q\n%s", name, got, test.want, steps)
		}
	}
}
