package console_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/console"
	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

// testTrace is the trace of two operators: deploy creates a ConfigMap for a Deployment, and pods
// first fails and then creates a Pod for the ConfigMap.
func testTrace(t *testing.T, began time.Time) string {
	t.Helper()
	at := func(ms int) string {
		return `"time":` + quoted(began.Add(time.Duration(ms)*time.Millisecond).UTC().Format(time.RFC3339Nano))
	}
	lines := `{"id":1,"run":"aaaa",` + at(0) + `,"controller":"deploy","kind":"Deployment","namespace":"default","name":"web","causes":[{"event":"add","kind":"Deployment","namespace":"default","name":"web","resourceVersion":"7","manager":"kubectl-create"}],"writes":[{"verb":"apply","kind":"ConfigMap","namespace":"default","name":"settings","resourceVersion":"8","changed":true}],"duration":"1.234567ms"}
{"id":1,"run":"bbbb",` + at(100) + `,"controller":"pods","kind":"ConfigMap","namespace":"default","name":"settings","causes":[{"event":"add","kind":"ConfigMap","namespace":"default","name":"settings","resourceVersion":"8","manager":"deploy"}],"writes":[{"verb":"create","kind":"Pod","namespace":"default","name":"worker","changed":true,"error":"quota exceeded"}],"error":"create Pod worker: quota exceeded","duration":"12ms"}
{"id":2,"run":"bbbb",` + at(400) + `,"controller":"pods","kind":"ConfigMap","namespace":"default","name":"settings","causes":[{"event":"retry"}],"writes":[{"verb":"create","kind":"Pod","namespace":"default","name":"worker","resourceVersion":"9","changed":true,"at":"1.5ms","duration":"1ms"}],"requeueAfter":"1h0m0s","duration":"3ms","queue":{"waited":"80µs","priority":-100,"retries":4,"ready":2,"delayed":1,"running":1},"reads":[{"verb":"get","kind":"ConfigMap","namespace":"default","name":"settings","resourceVersion":"6","at":"10µs","duration":"20µs"},{"verb":"list","kind":"Pod","namespace":"default","selector":"app=worker","resourceVersion":"9","count":0,"at":"40µs","duration":"30µs"}],"logs":[{"at":"1ms","level":"INFO","message":"creating the pod","attributes":"size=3"}]}
{"id":2,"run":"aaaa",` + at(900) + `,"controller":"deploy","kind":"Deployment","namespace":"default","name":"web","causes":[{"event":"update","kind":"Deployment","namespace":"default","name":"web","resourceVersion":"12","manager":"kubectl-edit"}],"error":"parse size: strconv.Atoi: invalid syntax","duration":"2ms"}
`
	name := filepath.Join(t.TempDir(), "trace")
	require.NoError(t, os.WriteFile(name, []byte(lines), 0o600))
	return name
}

// whyOfOrdinaryObjects opens objects that no trace has: the page says what is wrong, with its
// source and what has to happen next, as kelson why does, and what the traces have about the
// nearest owner.
func (b *tab) whyOfOrdinaryObjects(env *testenv.Env) {
	b.t.Helper()
	err := env.Client().Create(b.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lost"},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "nothing"},
			Ports: []corev1.ServicePort{{Port: 80}}},
	})
	require.NoError(b.t, err)
	b.goTo("/object/services/default/lost")
	b.until(`document.querySelector('.tabs a').textContent === 'Why' && document.querySelector('.tabs a').ariaCurrent === 'page'`)
	b.until(`document.querySelector('.findings .item.bad')?.innerText.includes('has no endpoints: no pod has the labels app=nothing')`)
	b.shows("next: create pods with these labels, or correct the selector")
	b.shows("source: spec.selector")
	b.shot("why-finding")
	web, err := client.Get[appsv1.Deployment](b.t.Context(), env.Client(),
		client.Key{Namespace: "default", Name: "web"})
	require.NoError(b.t, err)
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "owned", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "Deployment", Name: web.Name, UID: web.UID}},
	}}
	require.NoError(b.t, env.Client().Create(b.t.Context(), owned))
	b.goTo("/object/configmaps/default/owned?tab=why")
	b.until(`document.querySelector('.owners')?.innerText === 'ConfigMap owned, owned by Deployment default/web'`)
	b.shows("As it should be")
	b.shows("parse size: strconv.Atoi: invalid syntax")
}

// Objects that are not ready, from the cluster and from traces; the chain from an object through
// two operators to a person; reconciles with their effects. All of it live.
func TestNowAndWhy(t *testing.T) {
	chromium(t)
	env := testenv.New(t)
	b := open(t, start(t, console.Config{Cluster: env.RESTConfig(), Name: "test",
		Traces: []console.TraceSource{{Place: testTrace(t, time.Now())}}}))

	// The objects of the trace don't exist: nothing to report but the next scheduled reconcile.
	b.shows("Everything has settled.")
	b.shows("Next scheduled reconciles")
	b.shot("now-quiet")
	stuck := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stuck",
		Finalizers: []string{"example.com/never"}}}
	env.Create(t, stuck)
	require.NoError(t, env.Client().Delete(t.Context(), stuck))
	env.Create(t, deployment("web", 2))
	b.shows("1 object needs attention")
	b.shows("parse size: strconv.Atoi: invalid syntax")
	b.shows("2 objects need attention")
	b.shows("for finalizers: example.com/never")
	b.shot("now")

	b.goTo("/object/pods/default/worker?tab=why")
	b.until(`document.querySelector('.chain')?.innerText.includes('kubectl-create')`)
	b.shows("the previous reconcile failed")
	b.shows("Not found")
	b.shot("why")
	b.goTo("/object/deployments.apps/default/web?tab=why")
	b.shows("Last reconcile failed")
	b.shows("Who set which field")
	b.shows(".spec.replicas")
	b.whyOfOrdinaryObjects(env)
	b.goTo("/why")
	b.shows("worker")
	b.goTo("/reconcile")
	b.shows("1 failed")
	b.shot("reconciles")
	b.goTo("/reconcile?controller=pods&failed=true")
	b.until(`document.querySelectorAll('tbody tr').length === 1`)
	b.goTo("/reconcile/aaaa/1")
	b.until(`document.querySelector('table')?.innerText.includes('pods')`) // the effect
	b.shot("reconcile")
	b.goTo("/reconcile/bbbb/2")
	b.until(`document.querySelector('tr.stale')?.innerText.includes('version 8 was written before, by deploy')`)
	b.until(`[...document.querySelectorAll('.steps tbody tr')].map((r) => r.cells[1].innerText).join() === 'get,list,INFO,create'`)
	b.shows("creating the pod size=3")
	b.shows("2 ready, 1 delayed, 0 running")
	b.shot("reconcile-steps")
	b.goTo("/reconcile/aaaa/99")
	b.shows("no trace has reconcile 99")
}
