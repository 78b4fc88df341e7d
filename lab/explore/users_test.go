package explore_test

import (
	"context"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// reads gives ConfigMaps a size. It sends requests first, so that other requests happen while the
// server calls the webhook.
type reads struct{ client operator.Client }

func (r reads) Default(ctx context.Context, cm *corev1.ConfigMap) error {
	for range 8 {
		if err := r.client.Get(ctx, client.Key{Name: "default"}, &corev1.Namespace{}, client.Live); err != nil {
			return err
		}
	}
	return sizes{}.Default(ctx, cm)
}

// A user who creates an object tries again if the operator's process was killed, or is no longer
// the leader, while the server called its webhook.
func TestUserTriesAgainAfterWebhook(t *testing.T) {
	s := hookedScenario(t)
	s.Operator = explore.Parts(append(hookedParts()[:2],
		operator.Webhook[corev1.ConfigMap](func(c operator.Client) reads { return reads{c} }))...)
	for _, fault := range []string{"kill-before", "two-leaders"} {
		plan := "batch after configmaps default/web #1; " + fault + " create secrets default/web-2-key #1"
		got, steps := replayed(t, s, plan)
		if got != "" || strings.Contains(steps, "refused: ") ||
			!strings.Contains(steps, "create secrets default/web-3-key") {
			t.Errorf("%s: alarms %q\n%s", plan, got, steps)
		}
	}
}

// guarded is an operator with a finalizer, which the library adds and removes.
type guarded struct{ operator.Deps }

func (*guarded) Reconcile(context.Context, *corev1.ConfigMap) (operator.Result, error) {
	return operator.Result{}, nil
}

func (*guarded) Finalize(context.Context, *corev1.ConfigMap) (operator.Result, error) {
	return operator.Result{}, nil
}

// F10, F12: a user who creates an object again waits while a fault delays the deletion.
func TestUserWaitsForTheEndOfAFault(t *testing.T) {
	s := explore.Scenario{
		Operator: explore.Parts(operator.Name("guard"), operator.For(func(d operator.Deps) *guarded {
			return &guarded{d}
		})),
		Inputs: []explore.Input{explore.Create(configMap("web"))},
	}
	const plan = "recreate after configmaps default/web #1; deny patch configmaps default/web #2"
	got, steps := replayed(t, s, plan)
	if _, after, _ := strings.Cut(steps, "writes are no longer denied"); got != "" ||
		strings.Contains(steps, "refused: ") || !strings.Contains(after, "request: patch configmaps default/web") {
		t.Errorf("alarms %q\n%s", got, steps)
	}
}

// F12: a user who deletes a Job also deletes its Pods, as kubectl does.
func TestDeletedJob(t *testing.T) {
	s := eachConfigMap(nil)
	s.Operator = explore.Parts(operator.Name("each"), operator.For(func(d operator.Deps) *each {
		return &each{d, func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cm,
					corev1.SchemeGroupVersion.WithKind("ConfigMap"))}}}
			job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{Name: "main", Image: "busybox"}}}
			return operator.Result{}, ignoreExisting(c.Create(ctx, job))
		}}
	}, operator.Owns[batchv1.Job]()))
	s.Env = []testenv.Option{testenv.Workloads(), testenv.Nodes(controlplane.Simulated{})}
	if got, steps := replayed(t, s, "delete-child after jobs.batch default/web #1"); got != "" ||
		!strings.Contains(steps, "server: delete pods default/web-*") {
		t.Errorf("alarms %q\n%s", got, steps)
	}
}
