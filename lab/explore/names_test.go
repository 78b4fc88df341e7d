package explore_test

import (
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kelson.dev/lab/explore"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// Names that contain the time or a random part differ after a fault. They are not an alarm.
func TestNames(t *testing.T) {
	s := virtualProgram(t)
	for kind, faults := range map[string][]explore.Kind{
		"random": {explore.KillBefore, explore.Down},
		"unix":   {explore.FreezeAll, explore.SlowResponse},
		"date":   {explore.FreezeAll, explore.SlowResponse},
	} {
		s.Program.Env = []string{"NAMES=" + kind}
		report, err := explore.Explore(t, s, explore.Options{For: time.Hour, OneFault: true, Kinds: faults})
		if err != nil || len(report.Alarms) > 0 || report.Plans < 2 {
			t.Errorf("%s: %v, %d plans, %v", kind, err, report.Plans, report.Alarms)
		}
	}
}

// A Job without labels gets those of its template, and Kubernetes adds the name and the UID of the
// Job to them. Whether the Job has these, too, depends on the policy of another party. That is no
// alarm.
func TestMutateJob(t *testing.T) {
	for _, labels := range []map[string]string{nil, {"app": "web"}} {
		testMutateJob(t, labels)
	}
}

func testMutateJob(t *testing.T, labels map[string]string) {
	t.Helper()
	s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		job := ownedBy(cm, &batchv1.Job{})
		job.Name = cm.Name
		err := c.Get(ctx, client.KeyOf(job), &batchv1.Job{})
		if cm.Name != "web" || cm.DeletionTimestamp != nil || !apierrors.IsNotFound(err) {
			return operator.Result{}, client.IgnoreNotFound(err)
		}
		job.Spec.Template.Labels = labels
		job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: "Never",
			Containers: []corev1.Container{{Name: "main", Image: "nginx"}}}
		return operator.Result{}, c.Create(ctx, job)
	})
	if alarms := alarmsOf(t, s, explore.Mutate); len(alarms) > 0 {
		t.Errorf("with the labels %v of the template: %v", labels, alarms)
	}
}

// Events are late by less than the five minutes for which controllers expect their own writes in
// their caches, unless the scenario says otherwise.
func TestLag(t *testing.T) {
	late := false
	s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		if cm.Name != "web" || cm.DeletionTimestamp != nil || time.Since(cm.CreationTimestamp.Time) > 5*time.Minute {
			late = late || cm.Name == "web" && cm.DeletionTimestamp == nil
			return operator.Result{}, nil
		}
		return operator.Result{}, createSecret(ctx, c, cm, "-key", "")
	})
	s.Keep = true
	const plan = "freeze added configmaps default/web #1"
	if alarms, _ := explore.ReplayPlan(t, s, plan); len(alarms) > 0 || late {
		t.Errorf("%v, %v, want events before", alarms, late)
	}
	s.Lag = 10 * time.Minute
	if alarms, _ := explore.ReplayPlan(t, s, plan); len(alarms) == 0 || !late {
		t.Errorf("%v, %v, want late events", alarms, late)
	}
}
