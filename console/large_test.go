package console_test

import (
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"kelson.dev/console"
	"kelson.dev/internal/assert"
	"kelson.dev/lab/testenv"
)

// With 10,000 objects, the list renders only the visible rows, scrolls to the end, filters and
// follows changes. The search finds one of the objects.
func TestTenThousandObjects(t *testing.T) {
	chromium(t)
	env := testenv.New(t)
	var all sync.WaitGroup
	for part := range 10 {
		all.Go(func() {
			for i := range 1000 {
				env.Create(t, &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("item-%05d", part*1000+i)},
					Data:       map[string]string{"text": strings.Repeat("x", 200)},
				})
			}
		})
	}
	all.Wait()
	b := open(t, start(t, console.Config{Cluster: env.RESTConfig(), Name: "test"}))
	began := time.Now()
	b.goTo("/objects/configmaps?namespace=default")
	b.until(`document.querySelector('tbody')?.innerText.includes('item-00000')`)
	first := time.Since(began)
	// kube-root-ca.crt may be there
	b.until(`/^10,00[01]$/.test(document.querySelector('.head .quiet')?.textContent)`)
	t.Logf("10,000 objects: first rows after %s, all after %s (with the load of the page)",
		first.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	if n := eval[int](b, `document.querySelectorAll('tbody tr').length`); n > 100 {
		t.Errorf("%d rows are rendered", n)
	}
	eval[any](b, `document.querySelector('.rows').scrollTop = 1e7`)
	b.until(`document.querySelector('tbody')?.innerText.includes('item-09999')`)
	b.shot("ten-thousand")
	env.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "item-99999"}})
	b.until(`/^10,00[12]$/.test(document.querySelector('.head .quiet')?.textContent)`)
	b.until(`(document.querySelector('.rows').scrollTop = 1e7) && document.querySelector('tbody').innerText.includes('item-99999')`)
	b.goTo("/objects/configmaps?q=item-0777")
	b.until(`document.querySelectorAll('tbody tr').length === 10`)
	b.goTo("/")
	b.shows("Everything has settled.")
	b.press("/")
	b.press("item-04321")
	b.until(`document.querySelector('[role=option]')?.innerText.includes('item-04321')`)
	b.everyView("large", "configmaps/default/item-04321")
}

// The console has only the rights of its user; the page shows which requests were refused.
func TestRightsOfTheUser(t *testing.T) {
	chromium(t)
	env := testenv.New(t)
	env.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}})
	jane := rest.CopyConfig(env.RESTConfig())
	jane.Impersonate.UserName = "jane"
	b := open(t, start(t, console.Config{Cluster: jane, Name: "test", Write: true}))
	b.goTo("/objects/configmaps")
	b.shows(`User "jane" cannot list resource "configmaps"`)
	b.shows("If you may list a single namespace, choose it at the top of the page.")
	b.goTo("/objects/configmaps?namespace=default")
	b.shows(`in the namespace "default"`)
	if text := eval[string](b, `document.querySelector('main').innerText`); strings.Contains(text, "choose it") {
		t.Errorf("the list of a namespace advises to choose one: %s", text)
	}
	b.goTo("/object/secrets/default/x")
	b.shows("Forbidden")
	b.goTo("/")
	b.shows("Not readable")
	b.shows("Everything that could be read has settled.")
	b.shot("forbidden")
	b.goTo("/map")
	b.until(`[...document.querySelectorAll('.pairs dt')].some((d) => d.innerText === 'configmaps' && d.nextElementSibling.innerText.includes('User "jane" cannot list'))`)
}

// Now, Map and the search show the namespaces that the user may list, if the user may not list
// objects in all namespaces.
func TestUserOfANamespace(t *testing.T) {
	chromium(t)
	env := testenv.New(t)
	for _, namespace := range []string{"team", "secret"} {
		env.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		env.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
			Name: "visible-" + namespace}})
	}
	env.Create(t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "jane"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "jane"}}})
	jane := rest.CopyConfig(env.RESTConfig())
	jane.Impersonate.UserName = "jane"
	b := open(t, start(t, console.Config{Cluster: jane, Name: "test", Namespaces: []string{"team", "secret"}}))
	b.until(`[...document.querySelectorAll('.namespace option')].some((o) => o.value === 'team')`)
	b.until(`[...document.querySelectorAll('.pairs dt')].some((d) => d.innerText === 'configmaps' && d.nextElementSibling.innerText.includes('not in namespaces secret:'))`)
	b.press("/")
	b.press("visible")
	b.until(`[...document.querySelectorAll('[role=option]')].some((o) => o.innerText.includes('visible-team'))`)
	if text := eval[string](b, `document.querySelector('[role=listbox]').innerText`); strings.Contains(text,
		"visible-secret") {
		t.Errorf("the search shows an object that the user may not read: %s", text)
	}
	b.goTo("/map?all=true")
	b.shows("visible-team")
	env.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "created-later"}})
	b.shows("created-later")
	b.shot("namespaces")
}

// Changes are checked while the user types, stored on request, and only with Config.Write.
func TestEdit(t *testing.T) {
	chromium(t)
	env := testenv.New(t)
	env.Create(t, deployment("web", 2))
	b := open(t, start(t, console.Config{Cluster: env.RESTConfig(), Name: "test", Write: true}))
	b.goTo("/object/deployments.apps/default/web?tab=edit")
	replace := func(from, to string) {
		b.until(`document.querySelector('textarea')?.value.includes(` + quoted(from) + `)`)
		eval[any](b, `(() => { const t = document.querySelector('textarea'); t.value = t.value.replace(`+quoted(from)+
			`, `+quoted(to)+`); t.dispatchEvent(new Event('input', {bubbles: true})) })()`)
	}
	replace("replicas: 2", "replicas: -2")
	b.shows("must be greater than or equal to 0")
	replace("replicas: -2", "replicaz: 2")
	b.shows(`unknown field "spec.replicaz"`)
	replace("replicaz: 2", "replicas: 5")
	b.shows("The server accepts this.")
	b.until(`[...document.querySelectorAll('.diff .added')].some((l) => l.innerText.includes('replicas: 5'))`)
	b.shot("edit")
	web := deployment("web", 0)
	env.Get(t, web)
	if *web.Spec.Replicas != 2 {
		t.Errorf("the check stored %d replicas", *web.Spec.Replicas)
	}
	eval[any](b, `document.querySelector('button.primary').click()`)
	b.until(`!location.search.includes('edit')`)
	env.Get(t, web)
	assert.Equalf(t, *web.Spec.Replicas, 5, "replicas are stored")
}

// The page shows all digits of integers that JavaScript's numbers can't represent, and an edit of
// another field does not change them.
func TestLargeIntegers(t *testing.T) {
	chromium(t)
	definition := filepath.Join(t.TempDir(), "definition.yaml")
	write(t, definition, `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: larges.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: larges, kind: Large}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
`)
	env := testenv.New(t, testenv.CRDs(definition))
	one := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Large",
		"metadata": map[string]any{"namespace": "default", "name": "one"},
		"spec":     map[string]any{"size": int64(1<<53 + 1), "least": int64(math.MinInt64), "part": 0.5, "other": "a"},
	}}
	env.Create(t, one)
	b := open(t, start(t, console.Config{Cluster: env.RESTConfig(), Name: "test", Write: true}))
	b.goTo("/objects/larges.example.com")
	b.shows("9007199254740993")
	b.goTo("/object/larges.example.com/default/one?tab=why")
	b.shows("9007199254740993")
	b.goTo("/object/larges.example.com/default/one?tab=edit")
	b.until(`document.querySelector('textarea')?.value.includes('9007199254740993')`)
	eval[any](b, `(() => { const t = document.querySelector('textarea'); t.value = t.value.replace('other: a', 'other: b'); t.dispatchEvent(new Event('input', {bubbles: true})) })()`)
	b.shows("The server accepts this.")
	eval[any](b, `document.querySelector('button.primary').click()`)
	b.until(`!location.search.includes('edit')`)
	before := one.Object["spec"].(map[string]any)
	env.Get(t, one)
	before["other"] = "b"
	if after := one.Object["spec"]; !reflect.DeepEqual(after, any(before)) {
		t.Errorf("got %v, want %v", after, before)
	}
}
