package console_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/console"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/history"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator"
	"kelson.dev/operator/trace"
)

// everyView opens each view and each tab of an object. Each must load without a problem. It keeps
// screenshots in both themes, whose names begin with name.
func (b *tab) everyView(name, object string) {
	b.t.Helper()
	for _, view := range []string{"", "why", "timeline", "reconcile", "compare", "plan", "map", "history", "rights",
		"objects/pods"} {
		shot := view
		if view == "" {
			shot = "now"
		}
		b.view("/"+view, name+"-"+strings.ReplaceAll(shot, "/", "-"))
	}
	for _, one := range []string{"overview", "yaml", "why", "history", "events"} {
		b.view("/object/"+object+"?tab="+one, name+"-object-"+one)
	}
}

// view opens an address and waits until the view has loaded.
func (b *tab) view(path, shot string) {
	b.t.Helper()
	b.goTo(path)
	b.until(`!document.querySelector('.loading') && document.querySelector('main h1') && document.querySelector('main').innerText.length > 20`)
	problem := eval[string](b, `[...document.querySelectorAll('[role=alert]')].map((p) => p.innerText).join('\n')`)
	assert.Equalf(b.t, problem, "", "%s shows a problem", path)
	b.shot(shot + "-light")
	b.dark(true)
	b.shot(shot + "-dark")
	b.dark(false)
}

// podFor creates a Pod for each ConfigMap with the label app.
type podFor struct{ operator.Deps }

func (r *podFor) Reconcile(ctx context.Context, cm *corev1.ConfigMap) (operator.Result, error) {
	if cm.Labels["app"] == "" {
		return operator.Result{}, nil
	}
	operator.Log(ctx).Info("creating the pod", "app", cm.Labels["app"])
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name, Labels: cm.Labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "busybox:1.37"}}},
	}
	_, err := operator.CreateOrUpdate(ctx, r.Client, pod, func() error { return nil })
	return operator.Result{}, err
}

// Every view on an operator that fails: it may create one Pod, and tries to create two.
func TestEveryViewOnAFailingOperator(t *testing.T) {
	chromium(t)
	file := filepath.Join(t.TempDir(), "trace")
	out, err := os.Create(file)
	require.NoError(t, err)
	t.Cleanup(func() { out.Close() })
	past := filepath.Join(t.TempDir(), "test.history")
	recorded, err := os.Create(past)
	require.NoError(t, err)
	t.Cleanup(func() { recorded.Close() })
	w, err := history.NewWriter(recorded)
	require.NoError(t, err)
	env := testenv.New(t,
		testenv.Run(func(ctx context.Context, config *rest.Config) error {
			return operator.Run(ctx, operator.Config{REST: config, Trace: trace.JSON(out)},
				operator.Name("pods"), operator.For(func(d operator.Deps) *podFor { return &podFor{d} }))
		}),
		testenv.Run(func(ctx context.Context, config *rest.Config) error {
			return (&history.Recorder{Config: config, To: w, Log: func(error) {}}).Run(ctx)
		}))
	env.Create(t, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "few"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}},
	})
	for _, name := range []string{"first", "second"} {
		env.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
			Labels: map[string]string{"app": name}}})
		// The first gets its Pod. Eventually would wait for the next write to the control plane,
		// and the operator writes its trace after its last one.
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			data, err := os.ReadFile(file)
			if err == nil && strings.Contains(string(data), `"message":"creating the pod","attributes":"app=`+name) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("the trace lacks the reconcile of %s: %v\n%s", name, err, data)
			}
		}
	}
	audit := filepath.Join(t.TempDir(), "audit.log")
	appendAudit(t, audit, "system:kube-scheduler", "update", "", "secrets", "default")
	b := open(t, start(t, console.Config{
		Cluster: env.RESTConfig(), Name: "failing", Write: true, History: past, AuditLog: audit,
		Plan: writePlan(t, samplePlan()), Traces: []console.TraceSource{{Place: file}},
	}))
	b.shows("exceeded quota: few")
	b.goTo("/reconcile?failed=true")
	b.until(`document.querySelector('tbody')?.innerText.includes('exceeded quota: few')`)
	b.goTo("/object/configmaps/default/second?tab=why")
	b.shows("Last reconcile failed")
	b.until(`/as did the \d+ before it, since/.test(document.querySelector('.chain').innerText)`)
	// the first cause
	b.until(`document.querySelector('.chain').innerText.match(/was created|existed when the operator started/)`)
	b.goTo("/object/configmaps/default/second?tab=history")
	b.shows("version 1 of 1")
	b.everyView("failing", "configmaps/default/second")
}
