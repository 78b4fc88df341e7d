package explore_test

import (
	"context"
	"maps"
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

// labels creates a Secret with a label for each ConfigMap. If it has other labels, the operator
// creates it again. The bug: labels of others count, too.
func labels(correct bool) explore.Scenario {
	s := eachConfigMap(nil)
	s.Operator = explore.Parts(operator.Name("each"), operator.For(func(d operator.Deps) *each {
		return &each{d, func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
			if cm.Name != "web" || cm.DeletionTimestamp != nil {
				return operator.Result{}, nil
			}
			want := map[string]string{"app": cm.Name}
			secret := ownedBy(cm, &corev1.Secret{})
			secret.Name, secret.Labels = "web-key", want
			current := &corev1.Secret{}
			err := c.Get(ctx, client.KeyOf(secret), current)
			switch {
			case apierrors.IsNotFound(err):
				return operator.Result{}, c.Create(ctx, secret)
			case err != nil:
				return operator.Result{}, err
			case correct && current.Labels["app"] == cm.Name, maps.Equal(current.Labels, want):
				return operator.Result{}, nil
			}
			if left := time.Until(current.CreationTimestamp.Add(time.Minute)); left > 0 {
				return operator.Result{RequeueAfter: left}, nil // otherwise, the test takes long
			}
			return operator.Result{}, client.IgnoreNotFound(c.Delete(ctx, current))
		}}
	}, operator.Owns[corev1.Secret]()))
	s.Horizon = 30 * time.Minute
	return s
}

// An operator that replaces an object because another party has added a label to it does so
// forever, which raises an alarm. One that looks only at its own labels raises none.
func TestMutate(t *testing.T) {
	const plan = "mutate create secrets default/web-key #1"
	for name, correct := range map[string]bool{"faulty": false, "correct": true} {
		s := labels(correct)
		alarms := alarmsOf(t, s, explore.Mutate)
		if a, found := alarms["O4 "+plan]; found == correct || correct && len(alarms) > 0 {
			t.Errorf("%s: %v, %v", name, a, alarms)
		}
		if correct {
			repetition, err := explore.Repeat(t, s, plan, 3)
			if err != nil || repetition.Unequal > 0 {
				t.Errorf("%v, %v", repetition, err)
			}
		}
	}
}

// deployments creates a Deployment for the ConfigMap web. It creates it again if its template is
// another one. The bug: annotations that others have added to the template count, too.
func deployments(correct bool) explore.Scenario {
	s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		if cm.Name != "web" || cm.DeletionTimestamp != nil {
			return operator.Result{}, nil
		}
		app := map[string]string{"app": "web"}
		want := ownedBy(cm, &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: app},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}}}}})
		want.Name = "web"
		current := &appsv1.Deployment{}
		err := c.Get(ctx, client.KeyOf(want), current)
		switch {
		case apierrors.IsNotFound(err):
			return operator.Result{RequeueAfter: time.Minute}, c.Create(ctx, want)
		case err != nil:
			return operator.Result{}, err
		case correct || len(current.Spec.Template.Annotations) == 0:
			return operator.Result{}, nil
		}
		return operator.Result{RequeueAfter: time.Minute}, client.IgnoreNotFound(c.Delete(ctx, current))
	})
	s.Env = append(s.Env, testenv.Nodes(controlplane.Simulated{}))
	s.Horizon = 30 * time.Minute
	return s
}

// The policy of another party changes the template of a Deployment, and with it the hash in the
// names of its ReplicaSet and Pods. It is an alarm only if the operator creates the
// Deployment again and again because of it.
func TestMutateDeployment(t *testing.T) {
	const plan = "mutate create deployments.apps default/web #1"
	if got, steps := replayed(t, deployments(true), plan); got != "" {
		t.Errorf("alarms %q\n%s", got, steps)
	}
	if got, steps := replayed(t, deployments(false), plan); !strings.Contains(got, "O4") {
		t.Errorf("alarms %q, want O4\n%s", got, steps)
	}
}

// The policy of another party changes what the operator gets back, and the templates of workloads.
// Both are not part of the compared state.
func TestMutatedObjects(t *testing.T) {
	seen := map[string]string{}
	s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		if cm.Name != "web" {
			return operator.Result{}, nil
		}
		selector := map[string]string{"app": "web"}
		d := ownedBy(cm, &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{
			MatchLabels: selector},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}}}}})
		d.Name = "web"
		if err := ignoreExisting(c.Create(ctx, d)); err != nil {
			return operator.Result{}, err
		}
		err := c.Get(ctx, client.KeyOf(d), d)
		seen = map[string]string{"label": d.Labels["explore.kelson.dev/mutated"],
			"annotation": d.Annotations["explore.kelson.dev/mutated"],
			"template":   d.Spec.Template.Annotations["explore.kelson.dev/mutated"]}
		return operator.Result{}, err
	})
	if got, steps := replayed(t, s, "mutate create deployments.apps default/web #1"); got != "" ||
		!maps.Equal(seen, map[string]string{"label": "yes", "annotation": "yes", "template": "yes"}) {
		t.Errorf("alarms %q, the operator has seen %v\n%s", got, seen, steps)
	}
	report, err := explore.Explore(t, explore.Scenario{Operator: explore.Parts(operator.Name("each"),
		operator.For(func(d operator.Deps) *each {
			return &each{d, func(context.Context, client.Client, *corev1.ConfigMap) (operator.Result, error) {
				return operator.Result{}, nil
			}}
		})), Inputs: []explore.Input{explore.Create(configMap("web"))}}, explore.Options{Check: true, For: time.Hour})
	const want = "quota, occupied, mutate: the operator creates no objects"
	if err != nil || !strings.Contains(strings.Join(strings.Fields(report.Summary()), " "), want) {
		t.Errorf("%v, %s\nwant %q", err, report.Summary(), want)
	}
}
