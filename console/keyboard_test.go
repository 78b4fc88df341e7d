package console_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/console"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

const (
	ctrl  = chromedp.ModifierCtrl
	shift = chromedp.ModifierShift
)

// focusFunctions are JavaScript functions that read where the focus is. They change nothing.
const focusFunctions = `
window.tests = {
	name(el) { return (el.getAttribute('aria-label') || el.labels?.[0]?.textContent || [...el.childNodes].filter((n) => n.ariaHidden !== 'true').map((n) => n.textContent).join('') || el.title || '').trim().replace(/\s+/g, ' ').slice(0, 80); },
	// the elements that Tab reaches, in the order of the document
	stops() {
		const dialog = document.querySelector('dialog[open]');
		return [...(dialog ?? document).querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex="0"]')].filter((el) =>
			!el.disabled && el.tabIndex >= 0 && el.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true }));
	},
	// the reason why users cannot see where the focus is; empty if they can
	unseen() {
		const el = document.activeElement;
		if (!el || el === document.body) return 'nothing has the focus';
		const style = getComputedStyle(el);
		if (style.outlineStyle === 'none' || parseFloat(style.outlineWidth) < 1) return 'no outline';
		const r = el.getBoundingClientRect();
		if (r.width < 2 || r.height < 2) return 'no size';
		// a point of the element is in the window, and nothing covers it
		for (const [x, y] of [[0.5, 0.5], [0.05, 0.5], [0.5, 0.1], [0.1, 0.9], [0.9, 0.9], [0.02, 0.02]]) {
			const top = document.elementFromPoint(r.left + r.width * x, r.top + r.height * y);
			if (top && (el.contains(top) || top.contains(el) && top.closest('label, summary, dialog, main, nav, header') !== null)) return '';
		}
		return 'outside of the window or covered';
	},
};0`

// load opens an address and waits until the view has loaded.
func (b *tab) load(path string) {
	b.t.Helper()
	b.goTo(path)
	b.loaded()
	eval[any](b, focusFunctions)
}

func (b *tab) loaded() {
	b.t.Helper()
	b.until(`!document.querySelector('.loading') && document.querySelector('main h1') && document.querySelector('main').innerText.length > 20`)
}

// seen fails the test unless the element with the focus is visible and has an outline.
func (b *tab) seen() {
	b.t.Helper()
	if why := eval[string](b, `tests.unseen()`); why != "" {
		b.t.Errorf("%s: focus on %q: %s", eval[string](b, `location.pathname + location.search`), b.focused(), why)
	}
}

// focused returns the name of the element with the focus.
func (b *tab) focused() string {
	b.t.Helper()
	return eval[string](b, `document.activeElement.tagName + ' ' + tests.name(document.activeElement)`)
}

// to moves the focus with Tab to the next element whose name begins with a text.
func (b *tab) to(name string) { b.t.Helper(); b.move(name) }

// back moves the focus with Shift+Tab.
func (b *tab) back(name string) { b.t.Helper(); b.move(name, shift) }

func (b *tab) move(name string, modifiers ...chromedp.Modifier) {
	b.t.Helper()
	var passed []string
	for range 300 {
		b.press(kb.Tab, modifiers...)
		if eval[bool](b, `document.activeElement !== document.body && tests.name(document.activeElement).startsWith(`+
			quoted(name)+`)`) {
			b.seen()
			return
		}
		passed = append(passed, b.focused())
	}
	b.t.Fatalf("Tab does not reach %q, only %q", name, passed[:min(120, len(passed))])
}

// focusIs waits until an element that matches a selector has the focus.
func (b *tab) focusIs(selector string) {
	b.t.Helper()
	b.until(`document.activeElement.matches(` + quoted(selector) + `)`)
	b.seen()
}

// walk presses Tab from the start of the page to its end, and Shift+Tab back. Each element that can
// be operated must get the focus once, in the order of the document, and show it.
func (b *tab) walk(path string) {
	b.t.Helper()
	eval[any](b, `window.walked = [], window.expected = tests.stops(), 0`)
	count := eval[int](b, `expected.length`)
	for range count + 3 {
		b.press(kb.Tab)
		if !eval[bool](b, `(() => { const el = document.activeElement; if (el === document.body || el === walked[0]) return false; walked.push(el); return true; })()`) {
			break
		}
		b.seen()
	}
	const difference = `(() => { for (let i = 0; i < Math.max(expected.length, walked.length); i++)
		if (expected[i] !== walked[i]) return 'stop ' + i + ' of ' + expected.length + ' is ' + (walked[i] ? walked[i].outerHTML.slice(0, 150) : 'missing') + ', want ' + (expected[i] ? expected[i].outerHTML.slice(0, 150) : 'none');
		return ''; })()`
	if why := eval[string](b, difference); why != "" {
		b.t.Errorf("%s: Tab: %s", path, why)
		return
	}
	eval[any](b, `window.expected = walked.toReversed(), window.walked = [], 0`)
	for i := range count + 3 {
		b.press(kb.Tab, shift)
		if i == 0 && eval[bool](b, `document.activeElement === document.body`) {
			continue // after the end of the page, Tab had moved to its start
		}
		if !eval[bool](b, `(() => { const el = document.activeElement; if (el === document.body || el === walked[0]) return false; walked.push(el); return true; })()`) {
			break
		}
	}
	assert.Equalf(b.t, eval[string](b, difference), "", "%s: Shift+Tab", path)
}

// operated starts a cluster with objects for every view, for the tests of keys and screen readers.
func operated(t *testing.T) (*testenv.Env, *console.Console) {
	t.Helper()
	env := testenv.New(t, testenv.Nodes(controlplane.Processes{}), testenv.Workloads())
	for _, name := range []string{"shell", "other"} {
		env.Create(t, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
			Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: "app", Image: "none", Command: []string{"sh", "-c", "echo first line; exec sleep 3600"}}}},
		})
	}
	env.Create(t, deployment("web", 1))
	env.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings",
		Labels: map[string]string{"app": "web"}}, Data: map[string]string{"size": "1"}})
	env.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stuck",
		Finalizers: []string{"example.com/cleanup"}}})
	require.NoError(t, env.Client().Delete(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stuck"}}))
	// objects that are not ready yet would appear and disappear in Now
	env.Eventually(t, time.Minute, func() bool {
		var d appsv1.Deployment
		var pods corev1.PodList
		if env.Client().Get(t.Context(), client.Key{Namespace: "default", Name: "web"}, &d) != nil ||
			env.Client().List(t.Context(), &pods) != nil {
			return false
		}
		running := 0
		for _, p := range pods.Items {
			if p.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return d.Status.ReadyReplicas == 1 && running == 3
	})
	now := metav1.Now()
	env.Create(t, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: "tried"},
		InvolvedObject: corev1.ObjectReference{Kind: "Deployment", Namespace: "default", Name: "web"},
		Type:           "Normal", Reason: "Tried", Message: "the first", FirstTimestamp: now, LastTimestamp: now,
	})
	audit := filepath.Join(t.TempDir(), "audit.log")
	appendAudit(t, audit, "system:kube-scheduler", "update", "", "secrets", "default")
	appendAudit(t, audit, "system:kube-scheduler", "get", "", "pods", "default")
	config, err := clientcmd.BuildConfigFromFlags("", env.Kubeconfig(t)) // commands need a network
	require.NoError(t, err)
	return env, start(t, console.Config{
		Cluster: config, Name: "test", Write: true, AuditLog: audit, Plan: writePlan(t, samplePlan()),
		History: writeHistory(t),
		Failure: writeFailure(t, `{"what":"failed","curve":[{"step":0,"failures":0,"runs":2},{"step":1,"failures":2,"runs":2}],
			"passing":{"steps":["input: create web","event: added pods default/web"],"objects":{"pods default/web":[{"spec":{"size":1}}]}},
			"failing":{"steps":["input: create web","request: create pods default/p1","FAULT kill","ALARM failed"],"objects":{"pods default/web":[{"spec":{"size":2}}]}}}`),
		Traces: append(twoRuns(t), console.TraceSource{Place: testTrace(t, time.Now())}),
	})
}

// operatedViews are the addresses of all views of operated.
var operatedViews = []string{
	"/", "/why", "/timeline?select=aaaa/1", "/timeline?run=failing&select=step/2", "/reconcile", "/reconcile/aaaa/1",
	"/reconcile/bbbb/2", "/compare", "/plan", "/rights", "/map", "/history?from=10&to=12",
	"/objects/pods", "/objects/deployments.apps?wide=true", "/object/deployments.apps/default/web",
	"/object/deployments.apps/default/web?tab=yaml&field=%5B%22spec%22%5D",
	"/object/deployments.apps/default/web?tab=why", "/object/deployments.apps/default/web?tab=events",
	"/object/configmaps/default/settings?tab=history", "/object/configmaps/default/settings?tab=edit",
	"/object/pods/default/shell?tab=exec", "/object/pods/default/shell?tab=logs",
}

// In every view, Tab reaches each element that can be operated, in the order of the page, with a
// visible focus; Shift+Tab goes back, and nothing keeps the focus.
func TestTabOrder(t *testing.T) {
	chromium(t)
	_, c := operated(t)
	b := open(t, c)
	for _, path := range operatedViews {
		b.load(path)
		b.until(`document.querySelectorAll('nav.side details').length > 3`) // the kinds
		if path == "/map" {
			b.until(`document.querySelector('.map svg')`)
		}
		b.walk(path)
	}
}

// Every function of every view works by keys alone, from the start of the page.
func TestKeyboard(t *testing.T) {
	chromium(t)
	env, c := operated(t)
	b := open(t, c)
	at := func(text string) {
		t.Helper()
		b.until(`(location.pathname + location.search).includes(` + quoted(text) + `)`)
	}
	heading := func() {
		t.Helper()
		b.focusIs("main h1")
	}

	t.Run("frame", func(t *testing.T) {
		b := b.in(t)
		b.load("/")
		b.shows("stuck")
		b.press(kb.Tab)
		assert.Equalf(t, b.focused(), "A Skip to content", "the first stop")
		b.seen()
		b.press(kb.Enter)
		b.focusIs("main")
		b.to("ConfigMap default/stuck") // the first link of the view
		b.press(kb.Enter)
		at("/object/configmaps/default/stuck?tab=why")
		heading()
		// The navigation opens a view. One Tab then moves to its content.
		b.back("Map")
		b.press(kb.Enter)
		at("/map")
		heading()
		// The theme changes by its key and its button.
		b.press("t")
		b.until(`document.documentElement.dataset.theme === 'light'`)
		b.back("Theme: light")
		b.press(" ")
		b.until(`document.documentElement.dataset.theme === 'dark'`)
		b.press(kb.Enter)
		b.until(`document.documentElement.dataset.theme === undefined`)
		// A checkbox in the search turns shortcuts of one key off, and on again.
		b.press("/")
		b.focusIs("dialog input")
		b.to("Shortcuts of one key")
		b.press(" ")
		b.press(kb.Escape)
		b.until(`!document.querySelector('dialog')`)
		b.press("t")
		b.press("/")
		b.until(`!document.querySelector('dialog') && document.documentElement.dataset.theme === undefined`)
		b.press("k", ctrl)
		b.to("Shortcuts of one key")
		b.press(" ")
		b.press(kb.Escape)
		b.press("t")
		b.until(`document.documentElement.dataset.theme === 'light'`)
		b.press("t")
		b.press("t")
		// the namespace
		b.back("Namespace")
		b.press("def")
		at("namespace=default")
		b.focusIs(".namespace select")
		b.press(kb.Home)
		b.until(`!location.search.includes('namespace')`)
	})

	t.Run("search", func(t *testing.T) {
		b := b.in(t)
		b.load("/map")
		b.to("Search /")
		b.press(kb.Enter)
		b.focusIs("dialog input")
		// The focus stays in the dialog or moves to the browser, but never to the page behind it.
		for range 3 {
			b.press(kb.Tab)
			if !eval[bool](b, `document.activeElement === document.body || document.querySelector('dialog[open]').contains(document.activeElement)`) {
				t.Errorf("Tab leaves the dialog for %q", b.focused())
			}
		}
		b.press(kb.Escape)
		b.until(`document.querySelector('dialog') === null`)
		b.focusIs("button.search")
		b.press("/")
		b.focusIs("dialog input")
		b.press("settings")
		b.until(`[...document.querySelectorAll('[role=option]')].some((o) => o.textContent.includes('default/settings'))`)
		b.press(kb.ArrowDown)
		b.press(kb.ArrowUp)
		b.press(kb.Enter)
		at("/object/configmaps/default/settings")
		heading()
		b.press("k", ctrl)
		b.focusIs("dialog input")
		b.press(kb.Escape)
		heading()
	})

	t.Run("now and why", func(t *testing.T) {
		b := b.in(t)
		b.load("/why")
		b.to("ConfigMap default/settings")
		b.press(kb.Enter)
		at("/object/configmaps/default/settings?tab=why")
		heading()
		b.shows("Who set which field")
		b.to("pods #2")
		b.press(kb.Enter)
		at("/reconcile/bbbb/2")
		heading()
	})

	t.Run("timeline", func(t *testing.T) {
		b := b.in(t)
		b.load("/timeline")
		b.shows("marks as text")
		b.to("Fold gaps")
		b.press(" ")
		at("fold=false")
		b.press(" ")
		b.to("Filter lanes")
		b.press("settings")
		b.shows("in 1 lanes")
		b.press("a", ctrl)
		b.press(kb.Backspace)
		b.until(`!location.search.includes('q=')`)
		b.to("Show")
		b.press(kb.ArrowDown)
		at("run=failing")
		b.press(kb.ArrowUp)
		b.until(`!location.search.includes('run=')`)
		b.shows("marks as text")
		b.to("Timeline of")
		draws := func(key string) {
			t.Helper()
			before := eval[int](b, `performance.getEntriesByName('timeline').length`)
			b.press(key)
			b.until(fmt.Sprintf(`performance.getEntriesByName('timeline').length > %d`, before))
		}
		for _, key := range []string{kb.ArrowRight, kb.ArrowLeft, kb.ArrowDown, kb.ArrowUp, kb.PageDown, kb.PageUp, "+",
			"-", "0"} {
			draws(key)
		}
		b.press("n")
		at("select=")
		b.until(`document.querySelector('.selected')`)
		first := eval[string](b, `location.search`)
		b.press("n")
		b.until(`location.search !== ` + quoted(first))
		b.press("p")
		b.until(`location.search === ` + quoted(first))
		lanes := map[string]bool{}
		for range 8 { // every lane with a mark of its own
			b.until(`document.querySelector('.selected')?.innerText`)
			lanes[eval[string](b, `document.querySelector('.selected .object')?.innerText`)] = true
			b.press(kb.ArrowDown)
		}
		if len(lanes) < 2 {
			t.Errorf("the arrow keys reach the lanes %v", lanes)
		}
		b.to("Clear")
		b.press(kb.Enter)
		b.until(`!location.search.includes('select=')`)
		b.focusIs("canvas")
		b.press("n")
		at("select=")
		b.press(kb.Escape)
		b.until(`!location.search.includes('select=')`)
		b.moveTo(".notelist summary")
		b.press(kb.Enter)
		b.until(`document.querySelector('.notelist tbody tr')`)
		b.press(kb.Tab)
		b.seen()
		b.press(kb.Enter)
		at("select=")
	})

	t.Run("reconciles", func(t *testing.T) {
		b := b.in(t)
		b.load("/reconcile")
		b.to("Failed only")
		b.press(" ")
		at("failed=true")
		b.press(kb.Enter)
		b.until(`!location.search.includes('failed')`)
		b.to("Filter by object or error")
		b.press("quota")
		at("q=quota")
		b.press(kb.Escape) // clears a search field
		b.until(`!location.search.includes('q=')`)
		b.to("pods")
		b.focusIs("button.card")
		b.press(" ")
		at("controller=pods")
		b.to("pods #2")
		b.press(kb.Enter)
		at("/reconcile/bbbb/2")
		heading()
		b.shows("creating the pod")
		b.to("show it in the timeline")
		b.press(kb.Enter)
		at("/timeline?select=bbbb%2F2")
		heading()
	})

	t.Run("compare", func(t *testing.T) {
		b := b.in(t)
		b.load("/compare")
		b.to("Show equal rows")
		b.press(" ")
		at("all=true")
		b.to("Numbers")
		b.press(" ")
		b.until(`document.querySelector('details[open] summary')?.textContent === 'Numbers'`)
		b.to("Run A")
		b.press(kb.ArrowDown)
		at("a=")
		b.to("Swap")
		b.press(kb.Enter)
		at("b=")
	})

	t.Run("plan", func(t *testing.T) {
		b := b.in(t)
		b.load("/plan")
		b.to("Markdown")
		b.to("JSON")
		b.to("Filter steps")
		b.press("secret")
		b.until(`document.querySelectorAll('.step').length === 1`)
		b.press(kb.Escape)
		b.until(`document.querySelectorAll('.step').length === 3`)
		b.moveTo(".installed summary")
		b.press(" ")
		b.until(`document.querySelector('.installed[open]')`)
		b.moveTo(".step .write summary")
		b.press(kb.Enter)
		b.until(`!document.querySelector('.step .write').open`)
		b.to("step 1")
		b.press(kb.Enter)
		at("step=1")
		b.until(`document.querySelector('.step.target')`)
	})

	t.Run("rights", func(t *testing.T) {
		b := b.in(t)
		b.load("/rights")
		b.shows("missing")
		b.to("User")
		b.focusIs("select")
		b.to("Copy")
		b.press(kb.Enter)
		b.until(`document.getElementById('announcements').textContent === 'Copied'`)
		b.focusIs("button")
		b.to("Least role")
	})

	t.Run("map", func(t *testing.T) {
		b := b.in(t)
		b.load("/map")
		b.shows("links as text")
		b.to("All objects")
		b.press(" ")
		at("all=true")
		b.press(" ")
		b.to("Drawing of the objects")
		b.to("Deployment web")
		b.until(`document.querySelector('.edge.near')`)
		b.moveTo(".notelist summary")
		b.press(kb.Enter)
		b.until(`document.querySelector('.notelist tbody tr')`)
		b.to("Deployment default/web")
		b.press(kb.Enter)
		at("/object/deployments.apps/default/web")
		heading()
	})

	t.Run("history", func(t *testing.T) {
		b := b.in(t)
		b.load("/history")
		b.to("Kind")
		b.to("From revision")
		b.press("10")
		b.to("To revision")
		b.press("12" + kb.Enter)
		at("from=10&to=12")
		b.until(`document.querySelector('.changed')`)
		b.to("default/settings")
		b.press(kb.Enter)
		at("tab=history")
		heading()
		b.shows("version 4 of 4")
		b.to("Previous version")
		b.press(kb.Enter)
		b.shows("version 3 of 4")
		b.press(" ")
		b.shows("version 2 of 4")
		b.to("Version")
		b.press(kb.ArrowLeft)
		b.shows("version 1 of 4")
		b.focusIs("input[type=range]")
		b.press(kb.End)
		b.shows("version 4 of 4")
		b.press(kb.ArrowLeft)
		b.to("Compare with")
		b.press(kb.ArrowDown)
		b.until(`document.querySelector('.diff .added')`)
		b.focusIs("select")
		b.to("10")
		b.press(kb.Enter)
		b.shows("version 1 of 4")
		b.focusIs(".versions button")
		b.shows("Who set each field, and when")
	})

	t.Run("list", func(t *testing.T) {
		b := b.in(t)
		b.load("/objects/pods")
		b.until(`document.querySelectorAll('.rows tbody a').length >= 3`)
		b.to("Filter rows")
		b.press("sh")
		b.until(`document.querySelectorAll('.rows tbody a').length === 1`)
		b.press(kb.Escape)
		b.until(`document.querySelectorAll('.rows tbody a').length >= 3`)
		b.to("All columns")
		b.press(" ")
		at("wide=true")
		b.to("Objects")
		b.to("Name")
		b.press(kb.Enter)
		at("sort=Name")
		b.press(kb.Enter)
		at("sort=-Name")
		b.back("Objects")
		for _, key := range []string{kb.End, kb.Home, kb.ArrowDown, "k", "j", kb.ArrowUp, kb.PageDown} {
			b.press(key)
			b.focusIs(".rows tr.active a")
		}
		name := eval[string](b, `document.activeElement.textContent`)
		b.press(kb.Enter)
		at("/object/pods/default/" + name)
		heading()
	})

	t.Run("detail and yaml", func(t *testing.T) {
		b := b.in(t)
		b.load("/object/deployments.apps/default/web")
		for _, name := range []string{"Overview", "YAML", "History", "Events", "Why"} {
			if name == "Why" {
				b.back(name)
			} else {
				b.to(name)
			}
			b.press(kb.Enter)
			b.until(`document.querySelector('.tabs [aria-current=page]').textContent === ` + quoted(name))
			b.focusIs(".tabs [aria-current=page]")
		}
		b.to("YAML")
		b.press(kb.Enter)
		b.to("managedFields")
		b.press(" ")
		b.until(`document.querySelector('.yaml').textContent.includes('fieldsV1')`)
		b.press(" ")
		b.to("Copy")
		b.press(kb.Enter)
		b.until(`document.getElementById('announcements').textContent === 'Copied'`)
		b.to("Documentation")
		b.press(" ")
		b.until(`document.querySelector('.field')`)
		b.to("YAML")
		b.focusIs("pre.yaml")
		for range 3 {
			b.press(kb.ArrowDown)
		}
		b.until(`document.querySelector('.yaml .line.active')`)
		b.press("k")
		b.press(kb.Escape)
		b.until(`!document.querySelector('.field')`)
		b.focusIs("pre.yaml")
		b.press("j")
		b.until(`document.querySelector('.field')`)
		b.to("deployments.apps")
		b.press(kb.Enter)
		b.focusIs("aside.field")
		b.to("spec")
		b.press(kb.Enter)
		b.focusIs("aside.field")
		b.shows("Specification of the desired behavior")
		b.to("Close the documentation")
		b.press(kb.Enter)
		b.focusIs("pre.yaml")
	})

	t.Run("edit", func(t *testing.T) {
		b := b.in(t)
		b.load("/object/configmaps/default/settings?tab=edit")
		b.to("YAML")
		// the tab has the same name
		for !eval[bool](b, `document.activeElement.matches('textarea')`) {
			b.to("YAML")
		}
		insert := func(text string) { // before the quote at the end of the third line, data.size
			t.Helper()
			b.press(kb.Home, ctrl)
			b.press(kb.ArrowDown)
			b.press(kb.ArrowDown)
			b.press(kb.End)
			b.press(kb.ArrowLeft)
			b.press(text)
		}
		insert("2")
		b.shows("The server accepts this.")
		b.until(`document.querySelector('.diff .added').textContent.includes('size: "12"')`)
		b.to("What the server would store") // Tab leaves the editor
		b.back("Reset")
		b.press(kb.Enter)
		b.shows("No changes")
		b.focusIs("button")
		b.to("Documentation")
		b.press(" ")
		b.until(`document.querySelector('.field')`)
		b.to("YAML")
		insert("3")
		b.shows("The server accepts this.")
		b.back("Save")
		b.press(kb.Enter)
		b.until(`!location.search.includes('tab=edit')`)
		heading()
		env.Eventually(t, time.Minute, func() bool {
			var cm corev1.ConfigMap
			return env.Client().Get(t.Context(), client.Key{Namespace: "default", Name: "settings"}, &cm) == nil &&
				cm.Data["size"] == "13"
		})
		b.to("Edit")
		b.press(kb.Enter)
		b.to("Delete")
		b.press(kb.Enter)
		b.focusIs("dialog button") // Cancel
		assert.Equalf(t, b.focused(), "BUTTON Cancel", "the question begins at")
		b.press(kb.Escape)
		b.until(`document.querySelector('dialog') === null`)
		b.focusIs("button.danger")
		b.press(" ")
		b.focusIs("dialog button")
		b.press(kb.Enter)
		b.until(`document.querySelector('dialog') === null`)
		b.focusIs("button.danger")
		b.press(kb.Enter)
		b.to("Delete")
		b.focusIs("dialog button.danger")
		b.press(kb.Enter)
		b.shows("Deleted")
		heading()
	})

	t.Run("logs", func(t *testing.T) {
		b := b.in(t)
		b.load("/object/pods/default/shell?tab=logs")
		b.shows("first line")
		b.to("Container")
		b.to("Previous run")
		b.press(" ")
		at("previous=true")
		b.press(" ")
		b.until(`!location.search.includes('previous')`)
		b.to("Times")
		b.press(" ")
		b.until(`/^\d\d:\d\d:\d\d\.\d{3} first line/m.test(document.querySelector('pre.logs').innerText)`)
		b.to("Find lines")
		b.press("no such line")
		b.until(`document.querySelector('pre.logs').innerText === ''`)
		b.press("a", ctrl)
		b.press("first")
		b.shows("first line")
		b.to("Download")
		file := eval[string](b, `fetch(document.activeElement.href).then((r) => r.text())`)
		assert.Containsf(t, file, "first line", "the downloaded log")
		b.to("Log")
		for !eval[bool](b, `document.activeElement.matches('pre.logs')`) { // the tab is named Logs
			b.to("Log")
		}
	})

	t.Run("exec", func(t *testing.T) {
		b := b.in(t)
		b.load("/object/pods/default/shell?tab=exec")
		b.to("Container")
		b.to("Command")
		b.press("a", ctrl)
		b.press("sh -i" + kb.Enter)
		b.until(`document.activeElement.classList.contains('xterm-helper-textarea')`)
		b.press(`echo $((6*7))` + kb.Enter)
		b.until(`/^42/m.test(document.querySelector('.xterm-rows')?.innerText.replaceAll('\u00a0', ' '))`)
		b.press(kb.Tab) // belongs to the shell
		b.until(`document.activeElement.classList.contains('xterm-helper-textarea')`)
		b.shows("Ctrl+Shift+Q leaves the terminal")
		b.press("Q", ctrl, shift)
		b.focusIs("#exec-command")
		b.to("Run again")
	})

	t.Run("narrow", func(t *testing.T) {
		b := b.in(t)
		b.do(chromedp.EmulateViewport(320, 700))
		defer b.do(chromedp.EmulateViewport(1280, 800))
		b.load("/plan")
		b.to("Navigation")
		b.press(kb.Enter)
		b.until(`document.querySelector('.side.open')`)
		b.press(kb.Escape)
		b.until(`!document.querySelector('.side.open')`)
		b.focusIs("button.menu")
		b.press(" ")
		b.to("Compare")
		b.press(kb.Enter)
		at("/compare")
		b.until(`!document.querySelector('.side.open')`)
		heading()
	})
}

// in returns the tab for a subtest.
func (b *tab) in(t *testing.T) *tab {
	b.t = t
	return b
}

// moveTo moves the focus with Tab to the next element that matches a selector.
func (b *tab) moveTo(selector string) {
	b.t.Helper()
	for range 300 {
		b.press(kb.Tab)
		if eval[bool](b, `document.activeElement.matches(`+quoted(selector)+`)`) {
			b.seen()
			return
		}
	}
	b.t.Fatalf("Tab does not reach %s", selector)
}
