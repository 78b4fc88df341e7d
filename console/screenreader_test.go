package console_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/require"
)

// axNode is a node of the accessibility tree, which Chromium passes to screen readers.
type axNode struct {
	id, parent, role, name string
	focusable              bool
	level                  string
}

func axText(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	var value any
	if err := json.Unmarshal(v.Value, &value); err != nil || value == nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprint(value))
}

// accessible returns the accessibility tree of the page, without the nodes that screen readers
// skip.
func (b *tab) accessible() []axNode {
	b.t.Helper()
	got, err := chromedp.Call(b.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		b.fatal(err)
	}
	var nodes []axNode
	for _, n := range got.Nodes {
		if n.Ignored {
			continue
		}
		one := axNode{id: string(n.NodeID), parent: string(n.ParentID), role: axText(n.Role), name: axText(n.Name)}
		for _, p := range n.Properties {
			switch p.Name {
			case "focusable":
				one.focusable = axText(p.Value) == "true"
			case "level":
				one.level = axText(p.Value)
			}
		}
		nodes = append(nodes, one)
	}
	return nodes
}

// Roles whose nodes need a name, because a screen reader cannot read anything else for them.
var namedRoles = []string{
	"button", "link", "textbox", "searchbox", "combobox", "listbox", "slider", "option", "checkbox",
	"DisclosureTriangle", "tab", "dialog", "alertdialog",
	"img", "image", "Canvas", "application", "graphics-document", "region", "log", "heading", "columnheader",
	"navigation", "complementary",
}

// In every view, wide and as narrow as at 400 % zoom, Chromium's accessibility tree has a role and
// a name for everything that can be operated, one main part with one heading, the navigation, and
// the rows and headers of the tables.
func TestAccessibilityTree(t *testing.T) {
	chromium(t)
	_, c := operated(t)
	b := open(t, c)
	for _, width := range []int64{1280, 320} {
		b.do(chromedp.EmulateViewport(width, 800))
		for _, path := range operatedViews {
			b.load(path)
			b.until(`document.querySelectorAll('nav.side a').length > 20`) // the kinds
			eval[any](b, `document.querySelectorAll('main details').forEach((d) => d.open = true), 0`)
			b.loaded()
			count := map[string]int{}
			for _, n := range b.accessible() {
				count[n.role]++
				if n.role == "heading" && n.level == "1" {
					count["h1"]++
				}
				what := fmt.Sprintf("%s, %d px: %s %q", path, width, n.role, n.name)
				if n.name == "" && slices.Contains(namedRoles, n.role) {
					t.Errorf("%s has no name", what)
				}
				if n.focusable && slices.Contains([]string{"", "none", "generic", "StaticText", "paragraph", "group"},
					n.role) {
					t.Errorf("%s can have the focus, and has no role", what)
				}
			}
			// Beside an empty text node, Chromium omits spaces from the text for screen readers.
			for _, text := range eval[[]string](b, `(() => { const found = [], all = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
				while (all.nextNode()) if (all.currentNode.data === '') found.push(all.currentNode.parentElement.outerHTML.slice(0, 140)); return found; })()`) {
				t.Errorf("%s, %d px: an empty text node in %s", path, width, text)
			}
			navigations := 1 // one more for the tabs of an object
			if width < 760 {
				navigations = 0 // the navigation is closed
			}
			if strings.HasPrefix(path, "/object/") {
				navigations++
			}
			for role, want := range map[string]int{"main": 1, "banner": 1, "h1": 1, "navigation": navigations} {
				if count[role] != want {
					t.Errorf("%s, %d px: %d of %s, want %d", path, width, count[role], role, want)
				}
			}
			rows, heads := eval[int](b, `document.querySelectorAll('main tr:not([aria-hidden])').length`),
				eval[int](b, `document.querySelectorAll('main th').length`)
			cells := eval[int](b, `document.querySelectorAll('main tr:not([aria-hidden]) td').length`)
			if count["row"] != rows || count["columnheader"] != heads || count["cell"]+count["gridcell"] != cells {
				t.Errorf("%s, %d px: %d rows, %d headers and %d cells of tables, want %d, %d and %d", path, width,
					count["row"], count["columnheader"], count["cell"]+count["gridcell"], rows, heads, cells)
			}
		}
	}
}

// speak makes the page record what screen readers announce: the new text of a live region that was
// part of the page before, and a new alert.
const speak = `
window.said = [];
{
	const live = ':is([role=status], [role=log], [role=alert], [aria-live]):not([aria-live=off])';
	let known = new Set(document.querySelectorAll(live));
	new MutationObserver((records) => {
		const changed = new Set();
		for (const r of records) {
			const region = (r.target.nodeType === 1 ? r.target : r.target.parentElement)?.closest(live);
			if (region && known.has(region)) changed.add(region);
			for (const n of r.addedNodes) if (n.nodeType === 1) for (const a of n.matches('[role=alert]') ? [n] : n.querySelectorAll('[role=alert]')) changed.add(a);
		}
		for (const region of changed) if (region.isConnected && region.textContent.trim() && !region.closest('dialog[open] ~ *')) said.push(region.textContent.trim());
		known = new Set(document.querySelectorAll(live));
	}).observe(document.body, { childList: true, subtree: true, characterData: true });
};0`

// says waits until the page has announced, since the last call, a text that contains the given one.
func (b *tab) says(text string) {
	b.t.Helper()
	b.until(`said.some((s) => s.includes(` + quoted(text) + `))`)
	eval[any](b, `said = [], 0`)
}

// Screen readers announce changes while the focus is elsewhere.
func TestAnnouncements(t *testing.T) {
	chromium(t)
	env, c := operated(t)
	b := open(t, c)
	load := func(path string) {
		t.Helper()
		b.load(path)
		eval[any](b, speak)
	}
	load("/objects/configmaps")
	b.until(`document.querySelectorAll('.rows tbody a').length >= 2`)
	b.to("Filter rows")
	b.press("sett")
	b.says("1 of ")
	b.press(kb.Escape)
	b.says(" rows")
	// The list is a grid, which names the link of its active row until the link has the focus.
	b.to("Objects")
	first := eval[string](b, `document.activeElement.ariaActiveDescendantElement.textContent`)
	if !slices.ContainsFunc(b.accessible(), func(n axNode) bool {
		return n.role == "grid" && n.name == "Objects"
	}) || first == "" {
		t.Errorf("the list is not a grid, or has no active row: %q", first)
	}
	b.press(kb.ArrowUp)
	b.focusIs(".rows tr.active a")
	if got := eval[string](b, `document.activeElement.textContent`); got != first {
		t.Errorf("the active row is %q, but the first key moves the focus to %q", first, got)
	}

	load("/")
	b.shows("stuck")
	another := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "another",
		Finalizers: []string{"example.com/cleanup"}}}
	env.Create(t, another)
	require.NoError(t, env.Client().Delete(t.Context(), another))
	b.says("need attention")
	b.press("t")
	b.says("theme: light")

	load("/reconcile")
	b.shows("pods")
	b.to("Failed only")
	b.press(" ")
	b.says(" reconciles")

	load("/timeline")
	b.shows("marks as text")
	b.to("Timeline of")
	b.press("n")
	b.says("of controller ")
	b.until(`document.querySelector('canvas').ariaActiveDescendantElement?.textContent.includes(' took ')`)
	load("/timeline?run=failing")
	b.shows("steps as text")
	b.to("Timeline of")
	b.press("n")
	b.until(`document.querySelector('canvas').ariaActiveDescendantElement?.textContent.includes('step 2')`)

	load("/plan")
	b.to("Filter steps")
	b.press("secret")
	b.says("1 step")

	load("/object/configmaps/default/settings?tab=history")
	b.shows("version 4 of 4")
	b.to("Previous version")
	b.press(kb.Enter)
	b.says("version 3 of 4")

	load("/object/deployments.apps/default/web?tab=yaml")
	b.to("Copy")
	b.press(kb.Enter)
	b.says("Copied")
	b.to("Documentation")
	b.press(" ")
	b.moveTo("pre.yaml")
	b.until(`document.querySelector('.field [role=status]')`)
	for range 4 {
		b.press(kb.ArrowDown)
	}
	b.says("metadata")

	load("/object/configmaps/default/settings?tab=edit")
	b.moveTo("textarea")
	b.press("x")
	b.says("Checking…")
	b.says("yaml") // an alert with the error
	b.press(kb.Backspace)
	b.says("No changes")
	require.NoError(t, env.Client().Delete(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}}))
	b.says("settings: deleted")

	load("/object/pods/default/shell?tab=exec")
	b.to("Command")
	b.press(kb.Enter)
	b.says("Connected")
	b.until(`document.activeElement.classList.contains('xterm-helper-textarea')`)
	b.press(`echo $((6*7))` + kb.Enter)
	b.says("42")

	load("/map")
	b.press("/")
	b.focusIs("dialog input")
	b.press("nothing-has-this-name")
	b.says("Nothing found")
	// Orca says which element gets the focus only while the element that had it is in the page. The
	// closed dialog cannot be operated.
	eval[any](b, `window.dialogTime = new Promise((done) => {
		let since = 0;
		document.addEventListener('focusin', () => since = performance.now(), { once: true });
		new MutationObserver((records) => {
			if (!since || !records.some((r) => [...r.removedNodes].some((n) => n.nodeName === 'DIALOG'))) return;
			done(Math.round(performance.now() - since));
		}).observe(document.body, { childList: true, subtree: true });
	}), 0`)
	b.press(kb.Escape)
	b.focusIs("main h1")
	b.until(`[...document.querySelectorAll('dialog :is(a, button, input)')].every((e) => e.disabled)`)
	if ms := eval[int](b, `dialogTime`); ms < 900 {
		t.Errorf("the closed dialog was in the page for %d ms, want a second", ms)
	}
	// A screen reader reads all live regions of the page when they come back into the accessibility
	// tree, unless they are off until then.
	load("/object/configmaps/default/stuck?tab=edit")
	b.shows("No changes")
	b.press("/")
	b.focusIs("dialog input")
	const regions = `[...document.querySelectorAll('#app :is([role=status], [role=alert], [role=log])')]`
	b.until(regions + `.length > 0 && ` + regions + `.every((r) => r.getAttribute('aria-live') === 'off')`)
	b.press(kb.Escape)
	b.until(`!document.querySelector('dialog') && ` + regions + `.every((r) => !r.hasAttribute('aria-live'))`)
}

// A text with the same information accompanies each drawing.
func TestDrawingsAsText(t *testing.T) {
	chromium(t)
	_, c := operated(t)
	b := open(t, c)
	open := func(path, text string) { // other parts of the view may be shown before the text
		t.Helper()
		b.load(path)
		b.until(`document.querySelector(` + quoted(text) + `)`)
		eval[any](b, `document.querySelectorAll('main details').forEach((d) => d.open = true), 0`)
	}
	// Each line of the map is a row with both objects and the relation.
	open("/map", ".notelist")
	b.until(`document.querySelector('.edge.owns') && document.querySelectorAll('.notelist tbody tr').length === document.querySelectorAll('path.edge').length`)
	b.until(`[['owns', 'owns'], ['refers', 'refers to'], ['selects', 'selects']].every(([line, text]) =>
		document.querySelectorAll('path.edge.' + line).length === [...document.querySelectorAll('.notelist tbody tr')].filter((tr) => tr.children[1].textContent === text).length)`)
	b.until(`[...document.querySelectorAll('.notelist tbody tr')].some((tr) => /^Deployment default\/web.*owns.*ReplicaSet default\/web-/.test(tr.innerText.replace(/\s+/g, ' ')))`)

	// Each mark of the timeline is a row with the time, the kind of mark and the object.
	open("/timeline", ".notelist")
	b.until(`document.querySelector('.notelist tbody tr') && document.querySelectorAll('.notelist tbody tr').length === parseInt(document.querySelector('.head .quiet').innerText)`)
	rows := eval[[]string](b, `[...document.querySelectorAll('.notelist tbody tr')].map((tr) => tr.innerText.replace(/\s+/g, ' '))`)
	for _, want := range []string{
		"Deployment default/web reconcile took 1.2 ms", "ConfigMap default/settings failed reconcile took 12 ms",
		"Pod default/worker refused write", "ConfigMap default/settings write",
		"Deployment default/web Event Tried: the first",
	} {
		if !slices.ContainsFunc(rows, func(r string) bool { return strings.Contains(r, want) }) {
			t.Errorf("the text of the timeline lacks %q:\n%s", want, strings.Join(rows, "\n"))
		}
	}

	// Each point of the curve is a row.
	open("/compare", ".curve + details")
	points := eval[[]string](b, `[...document.querySelectorAll('.curve circle title')].map((t) => t.textContent)`)
	numbers := eval[[]string](b, `[...document.querySelectorAll('.curve + details tbody tr')].map((tr) => 'Step ' + tr.children[0].textContent + ': ' + tr.children[2].textContent + ' of ' + tr.children[3].textContent + ' fail')`)
	if len(points) != 2 || !slices.Equal(points, numbers) {
		t.Errorf("the curve has the points %q, its table %q", points, numbers)
	}
}

// At 400 % zoom of a window of 1280 by 1024 pixels, no view scrolls sideways, and no element is
// outside of the page or cut off. Drawings, the terminal and the columns of lists scroll inside
// their own part.
func TestZoom(t *testing.T) {
	chromium(t)
	_, c := operated(t)
	b := open(t, c)
	b.do(chromedp.EmulateViewport(320, 256))
	check := func(what string) {
		t.Helper()
		for _, problem := range eval[[]string](b, `(() => {
			const found = [];
			const text = (el) => el.outerHTML.slice(0, 140);
			for (const el of document.querySelectorAll('html, body, body *')) {
				if (!el.checkVisibility() || el.parentElement?.closest('.map, .rows, .timeline, .shell, svg, .hidden, .plain thead') || el.matches('.map, .rows, .timeline, .shell, .hidden, .skip:not(:focus), .plain thead, input, textarea, select, option')) continue;
				const s = getComputedStyle(el), r = el.getBoundingClientRect();
				if (el.clientWidth && el.scrollWidth > el.clientWidth + 1 && s.overflowX !== 'visible') found.push('is wider than its place by ' + (el.scrollWidth - el.clientWidth) + ': ' + text(el));
				if (r.width > 1 && (r.right > 321 || r.left < -1)) found.push('is outside of the page (' + Math.round(r.left) + ' to ' + Math.round(r.right) + '): ' + text(el));
				if (el.clientHeight && el.scrollHeight > el.clientHeight + 1 && /hidden|clip/.test(s.overflowY)) found.push('is cut off: ' + text(el));
			}
			return found.slice(0, 4);
		})()`) {
			t.Errorf("%s: %s", what, problem)
		}
	}
	for _, path := range operatedViews {
		b.load(path)
		eval[any](b, `document.querySelectorAll('main details').forEach((d) => d.open = true), 0`)
		b.loaded()
		check(path)
	}
	b.press("/")
	b.press("web")
	b.until(`document.querySelectorAll('[role=option]').length > 1`)
	check("search")
	b.press(kb.Escape)
	b.load("/map")
	b.to("Navigation")
	b.press(kb.Enter)
	b.until(`document.querySelector('.side.open')`)
	check("navigation")
	b.load("/object/configmaps/default/settings?tab=edit")
	b.to("Delete")
	b.press(kb.Enter)
	b.focusIs("dialog button")
	check("question")
}
