package plan_test

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/lab/plan"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/trace"
)

// shops gives each ConfigMap that has the label app a Service.
type shops struct{ operator.Client }

func (r *shops) Reconcile(ctx context.Context, app *corev1.ConfigMap) (operator.Result, error) {
	if app.Labels["app"] == "" {
		return operator.Result{}, nil
	}
	_, err := operator.Apply(ctx, r.Client, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: app.Name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	})
	return operator.Result{}, err
}

func (r *shops) Finalize(context.Context, *corev1.ConfigMap) (operator.Result, error) {
	return operator.Result{}, nil
}

// Objects that the server writes together with an object of the operator, such as the address of a
// Service and the use of a quota, are effects of that write and no steps of the operator. They
// don't count as differences. An object whose last finalizer the operator removes is deleted in the
// step of that reconcile.
func TestPlanOfWritesBesides(t *testing.T) {
	env := cluster(t)
	env.Create(t, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "quota"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/services": resource.MustParse("5")}},
	})
	env.Eventually(t, time.Minute, func() bool {
		quota, err := client.Get[corev1.ResourceQuota](t.Context(), env.Client(),
			operator.Key{Namespace: tenant, Name: "quota"})
		return err == nil && len(quota.Status.Used) > 0
	})
	env.Create(t, app("web"))
	const finalizer = "example.com/shops"
	old := app("old")
	old.Finalizers = []string{finalizer}
	env.Create(t, old)
	must(t, env.Client().Delete(t.Context(), old))
	state := read(t, env.RESTConfig())
	runShops := func(traced bool) *plan.Plan {
		return planOf(t, state, plan.Config{Operator: func(ctx context.Context, to plan.Target) error {
			cfg := operator.Config{REST: to.Config}
			if traced {
				cfg.Trace = trace.Func(func(r trace.Record) { to.Reconciled(trace.Line(r)) })
			}
			return operator.Run(ctx, cfg, operator.Name("shops"),
				operator.For(func(c operator.Client) *shops {
					return &shops{c}
				}, operator.Owns[corev1.Service](), operator.FinalizerName(finalizer)))
		}})
	}
	var written, effects []string
	p := runShops(true)
	for _, step := range p.Steps {
		if step.Controller == "" {
			t.Errorf("a step without a controller: %+v", step)
		}
		for _, w := range step.Writes {
			written = append(written, w.Verb+" "+w.Object.Kind+" "+w.Object.Name)
			for _, e := range w.Effects {
				effects = append(effects, e.Verb+" "+e.Object.Kind)
			}
		}
	}
	slices.Sort(written)
	want := []string{"create Service web", "delete ConfigMap old", "update ConfigMap web"}
	assert.Slicef(t, written, want, "the operator writes")
	for _, want := range []string{"create IPAddress", "update ResourceQuota"} {
		if !slices.Contains(effects, want) {
			t.Errorf("no effect %q: %q", want, effects)
		}
	}
	if err := p.Compare(runShops(true), "itself"); err != nil || !p.Empty() {
		t.Errorf("the operator differs from itself: %v, %+v", err, p.Differences)
	}
	for _, step := range runShops(false).Steps {
		for _, w := range step.Writes {
			if kind := w.Object.Kind; kind != "Service" && kind != "ConfigMap" {
				t.Errorf("without a trace, the operator writes a %s", kind)
			}
		}
	}
}
