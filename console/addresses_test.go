package console_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/console"
	"kelson.dev/lab/testenv"
)

// Addresses of pages, kinds and objects that do not exist lead to a page with a heading that says
// so, and that does not load forever.
func TestAddressesOfNothing(t *testing.T) {
	chromium(t)
	b := open(t, start(t, console.Config{Cluster: testenv.New(t).RESTConfig(), Name: "test"}))
	for _, test := range []struct{ path, shows, title string }{
		{"/nothing", "The console has no page with this address.", "nothing"},
		{"/object", "The console has no page with this address.", "object"},
		{"/objects/nothings.example.com", `the server doesn't have a resource type "nothings.example.com"`,
			"objects/nothings.example.com"},
		{"/object/nothings.example.com/default/x", `the server doesn't have a resource type "nothings.example.com"`,
			"default/x"},
		{"/object/nothings.example.com/default/x?tab=why",
			`the server doesn't have a resource type "nothings.example.com"`, "default/x"},
		{"/object/configmaps/default/missing", "The object does not exist.", "default/missing"},
		// not UTF-8
		{"/object/configmaps/default/%FF", "The object does not exist.", "default/%FF"},
	} {
		b.goTo(test.path)
		b.until(`document.querySelector('main h1') && document.querySelector('main').innerText.includes(` +
			quoted(test.shows) + `) && !document.querySelector('.loading')`)
		b.until(`document.title === ` + quoted(test.title+" · test"))
	}
}

// Of an object with thousands of fields, the page shows the first ones, and the others on request.
func TestLongObject(t *testing.T) {
	chromium(t)
	env := testenv.New(t)
	data := map[string]string{}
	for i := range 6000 {
		data[fmt.Sprintf("key-%04d", i)] = "value"
	}
	env.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "long"}, Data: data})
	b := open(t, start(t, console.Config{Cluster: env.RESTConfig(), Name: "test"}))
	for _, test := range []struct{ tab, first, more string }{
		{"overview", "key-0499", "5,500 more entries"},
		{"yaml", "key-4997", "more lines"},
		{"why", "key-0499", "5,500 more fields"},
	} {
		b.goTo("/object/configmaps/default/long?tab=" + test.tab)
		b.shows(test.first)
		text := eval[string](b, `document.querySelector('main').innerText`)
		if !strings.Contains(text, test.more) || strings.Contains(text, "key-5999") {
			t.Errorf("%s: want %q and no last entry in\n%s", test.tab, test.more, text[max(0, len(text)-200):])
		}
		eval[any](b, `[...document.querySelectorAll('main button')].find((b) => b.innerText === 'Show all').click()`)
		b.shows("key-5999")
	}
}
