package console_test

import (
	"net/url"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"kelson.dev/console"
	"kelson.dev/lab/testenv"
)

// The documentation of fields, by mouse, by keys and by address, also while editing.
func TestFieldDocumentation(t *testing.T) {
	chromium(t)
	env := testenv.New(t)
	env.Create(t, deployment("web", 2))
	b := open(t, start(t, console.Config{Cluster: env.RESTConfig(), Name: "test", Write: true}))
	b.goTo("/object/deployments.apps/default/web?tab=yaml")
	b.until(`document.querySelector('.yaml .key')`)
	eval[chromedp.Void](b, `[...document.querySelectorAll('.yaml .key')].find((k) => k.textContent === 'replicas').click()`)
	b.shows("Number of desired pods")
	b.until(`document.querySelector('.field')?.innerText.includes('integer (int32)')`)
	b.shot("field")
	// the next field by keys: revisionHistoryLimit
	eval[chromedp.Void](b, `document.querySelector('.yaml').focus()`)
	b.press(kb.ArrowDown)
	b.shows("The number of old ReplicaSets to retain")
	b.press(kb.Escape)
	b.until(`document.querySelector('.field') === null`)

	// an item of a list, through references; then a field that the schema does not have
	b.goTo("/object/deployments.apps/default/web?tab=yaml&field=" +
		url.QueryEscape(`["spec","template","spec","containers","0"]`))
	b.shows("A single application container")
	eval[chromedp.Void](b, `[...document.querySelectorAll('.subfields button')].find((k) => k.textContent === 'imagePullPolicy').click()`)
	b.shows("IfNotPresent")
	b.goTo("/object/deployments.apps/default/web?tab=yaml&field=" + url.QueryEscape(`["metadata","labels","a/b"]`))
	b.until(`document.querySelector('.field')?.innerText.includes('metadata.labels.a/b') && document.querySelector('.field')?.innerText.includes('string')`)
	b.goTo("/object/deployments.apps/default/web?tab=yaml&field=" + url.QueryEscape(`["spec","absent"]`))
	b.shows("does not document spec.absent")

	// the field at the cursor of the editor
	b.goTo("/object/deployments.apps/default/web?tab=edit")
	b.until(`document.querySelector('textarea')`)
	eval[chromedp.Void](b, `[...document.querySelectorAll('button')].find((k) => k.textContent === 'Documentation').click()`)
	for field, text := range map[string]string{
		"image: busybox": "Container image name", "- command:": "Entrypoint array", "app: web": "labels.app",
		"maxSurge": "maximum number of pods", "- sleep": "command.0",
	} {
		eval[chromedp.Void](b, `(() => { const e = document.querySelector('textarea'); e.focus(); e.selectionStart = e.selectionEnd = e.value.indexOf(`+quoted(field)+`) + 1; e.dispatchEvent(new Event('select', {bubbles: true})); })()`)
		b.until(`document.querySelector('.field')?.innerText.includes(` + quoted(text) + `)`)
	}
	b.shot("edit-field")
	// validation while typing names the unknown field
	eval[chromedp.Void](b, `(() => { const e = document.querySelector('textarea'); e.value = e.value.replace('  replicas: 2', '  replicas: 2\n  replicsa: 3'); e.dispatchEvent(new Event('input', {bubbles: true})); })()`)
	b.shows("spec.replicsa")
	b.until(`document.querySelector('button.primary').ariaDisabled === 'true'`)
}
