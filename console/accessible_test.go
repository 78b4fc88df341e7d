package console_test

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/console"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/testenv"
)

// axe-core finds no serious problem in any view: in the light and the dark theme, and with the
// width of 400 % zoom.
func TestAccessible(t *testing.T) {
	chromium(t)
	f, err := os.Open("testdata/axe/axe.min.js.gz")
	require.NoError(t, err)
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	require.NoError(t, err)
	axe, err := io.ReadAll(unpacked)
	require.NoError(t, err)
	env := testenv.New(t, testenv.Nodes(controlplane.Simulated{}), testenv.Workloads())
	env.Create(t, deployment("web", 2))
	env.Create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lone"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "busybox:1.37"}}}})
	audit := filepath.Join(t.TempDir(), "audit.log")
	appendAudit(t, audit, "system:kube-scheduler", "update", "", "secrets", "default")
	b := open(t, start(t, console.Config{Cluster: env.RESTConfig(), Name: "test", Write: true, AuditLog: audit, Plan: writePlan(t, samplePlan()), History: writeHistory(t), Failure: writeFailure(t, `{"what":"failed","curve":[{"step":0,"failures":0,"runs":2},{"step":1,"failures":2,"runs":2}],
		"passing":{"steps":["input: create web","event: added pods default/web"],"objects":{"pods default/web":[{"spec":{"size":1}}]}},
		"failing":{"steps":["input: create web","FAULT kill","ALARM failed"],"objects":{"pods default/web":[{"spec":{"size":2}}]}}}`), Traces: []console.TraceSource{{Place: testTrace(t, time.Now())}}}))
	for _, mode := range []string{"light", "dark", "narrow"} {
		b.dark(mode == "dark")
		if mode == "narrow" {
			b.do(chromedp.EmulateViewport(320, 700))
		}
		for _, path := range []string{
			"/", "/why", "/timeline?select=aaaa/1", "/timeline?run=failing&select=step/2", "/reconcile",
			"/reconcile/aaaa/1", "/reconcile/bbbb/2", "/compare", "/plan", "/rights", "/map", "/history",
			"/objects/pods", "/objects/deployments.apps?wide=true",
			"/object/deployments.apps/default/web", "/object/deployments.apps/default/web?tab=yaml",
			"/object/deployments.apps/default/web?tab=why",
			"/object/deployments.apps/default/web?tab=yaml&field=%5B%22spec%22%2C%22template%22%5D",
			"/object/deployments.apps/default/web?tab=events", "/object/configmaps/default/settings?tab=history",
			"/object/deployments.apps/default/web?tab=edit",
			"/object/pods/default/lone?tab=exec", "/object/pods/default/lone?tab=logs",
		} {
			b.goTo(path)
			b.until(`!document.querySelector('.loading') && document.querySelector('main h1') && document.querySelector('main').innerText.length > 20`)
			if path == "/reconcile/aaaa/1" && mode != "dark" {
				b.shot("reconcile-" + mode)
			}
			eval[any](b, string(axe)+";0")
			found := eval[[]string](b, `axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical')
				.map((v) => v.id + ' (' + v.impact + '): ' + v.help + '\n' + v.nodes.slice(0, 3).map((n) => '  ' + n.html.slice(0, 200) + '\n  ' + n.failureSummary).join('\n')))`)
			for _, violation := range found {
				t.Errorf("%s, %s: %s", path, mode, violation)
			}
			if mode == "narrow" && eval[bool](b, `document.documentElement.scrollWidth > 320`) {
				t.Errorf("%s: wider than the screen at 400 %% zoom", path)
			}
		}
		b.goTo("/")
		b.press("/")
		b.press("web")
		b.until(`document.querySelectorAll('[role=option]').length > 1`)
		eval[any](b, string(axe)+";0")
		for _, violation := range eval[[]string](b,
			`axe.run(document).then((r) => r.violations.filter((v) => v.impact === 'serious' || v.impact === 'critical').map((v) => v.id + ': ' + v.nodes[0].html.slice(0, 300)))`) {
			t.Errorf("search, %s: %s", mode, violation)
		}
	}
}
