package explore_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// A time within a text differs after a fault. It is not an alarm.
func TestTimesInTexts(t *testing.T) {
	s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		if cm.Name != "web" || cm.DeletionTimestamp != nil {
			return operator.Result{}, nil
		}
		child := ownedBy(cm, &corev1.ConfigMap{Data: map[string]string{
			"times": `{"default/web":"` + time.Now().UTC().Format(time.RFC3339) + `"}`}})
		child.Name = "web-times"
		err := c.Create(ctx, child)
		if apierrors.IsAlreadyExists(err) {
			err = nil
		}
		return operator.Result{}, err
	})
	if alarms := alarmsOf(t, s, explore.KillBefore, explore.FreezeAll); len(alarms) > 0 {
		t.Errorf("%v", alarms)
	}
}

// A Service without an owner is left behind with the other objects of the operator, although the
// control plane's Endpoints of it remain, too.
func TestServiceLeft(t *testing.T) {
	s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		if cm.Name != "web" || cm.DeletionTimestamp != nil {
			return operator.Result{}, nil
		}
		meta := metav1.ObjectMeta{Namespace: cm.Namespace, Name: "web"}
		for _, object := range []client.Object{&corev1.Secret{ObjectMeta: meta}, &corev1.Service{ObjectMeta: meta,
			Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}}}} {
			if err := c.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
				return operator.Result{}, err
			}
		}
		return operator.Result{}, nil
	})
	report, err := explore.Explore(t, s, explore.Options{For: time.Hour, OneFault: true, Plans: 1})
	if err != nil || len(report.Alarms) == 0 || report.Alarms[0].Oracle != "O9" ||
		!strings.Contains(report.Alarms[0].Detail, "secrets default/web") ||
		!strings.Contains(report.Alarms[0].Detail, "services default/web") {
		t.Errorf("%v, %v, want a Secret and a Service that are left behind", err, report.Alarms)
	}
}

// A user may create a resource again while the operator deletes it. A deletion without a namespace
// is that of the creation.
func TestCreateWhileDeleted(t *testing.T) {
	web := configMap("web")
	web.Namespace = ""
	s := explore.Scenario{Operator: explore.Parts(operator.Name("slow"), operator.For(func(d operator.Deps) *slow {
		return &slow{d}
	})), Inputs: []explore.Input{explore.Create(configMap("web")), explore.Delete(web),
		explore.Create(configMap("web")).Together()}}
	if alarms, steps := explore.ReplayPlan(t, s, "no faults"); len(alarms) > 0 ||
		!slices.Contains(steps, "event: deleted configmaps default/web") {
		t.Errorf("%v\n%s", alarms, strings.Join(steps, "\n"))
	}
}

// slow takes a minute to clean up before a ConfigMap is deleted.
type slow struct{ operator.Deps }

func (*slow) Reconcile(context.Context, *corev1.ConfigMap) (operator.Result, error) {
	return operator.Result{}, nil
}

func (*slow) Finalize(_ context.Context, cm *corev1.ConfigMap) (operator.Result, error) {
	if left := time.Minute - time.Since(cm.DeletionTimestamp.Time); left > 0 {
		return operator.Result{RequeueAfter: left}, nil
	}
	return operator.Result{}, nil
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
