package console_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/console"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/history"
	"kelson.dev/lab/testenv"
)

// LAB-07: owners, selectors and references, and one node per kind if there are many objects.
func TestMap(t *testing.T) {
	chromium(t)
	env := testenv.New(t, testenv.Nodes(controlplane.NodeSimulated), testenv.Workloads())
	env.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}})
	web := deployment("web", 3)
	web.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
	env.Create(t, web)
	env.Create(t, deployment("api", 2))
	env.Create(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}},
	}})
	b := open(t, start(t, console.Config{Cluster: env.RESTConfig(), Name: "test"}))
	b.goTo("/map?namespace=default")
	// 2 Deployments, 2 ReplicaSets, 5 Pods, Service, ConfigMap
	b.until(`document.querySelectorAll('.node').length === 11`)
	b.until(`document.querySelectorAll('.edge.owns').length === 7 && document.querySelectorAll('.edge.selects').length === 3 && document.querySelectorAll('.edge.refers').length === 3`)
	b.shot("map")

	scaled := deployment("many", 320)
	env.Create(t, scaled)
	b.until(`document.querySelector('.head')?.innerText.includes('joined by kind')`)
	b.until(`[...document.querySelectorAll('.node')].some((n) => n.textContent.includes('× 3'))`)
	b.shot("map-joined")
}

// writeHistory writes four versions of a ConfigMap, the last of which is a deletion.
func writeHistory(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "test.history")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := history.NewWriter(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Resource(history.Resource{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true}); err != nil {
		t.Fatal(err)
	}
	key := history.Key{Resource: "configmaps", Namespace: "default", Name: "settings"}
	began := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	for i, size := range []string{"small", "medium", "large"} {
		data, err := json.Marshal(corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{"size": size, "color": "green"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings", ResourceVersion: fmt.Sprint(10 + i)},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Put(key, uint64(10+i), began.Add(time.Duration(i)*time.Minute), data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Delete(key, 13, began.Add(3*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return name
}

// LAB-07: versions of an object, deleted since; any two compared; what changed in the cluster.
func TestHistory(t *testing.T) {
	chromium(t)
	changes := 0
	b := open(t, start(t, console.Config{Cluster: fakeCluster(t, &changes), Name: "test", History: writeHistory(t)}))
	b.goTo("/history")
	b.shows("4 versions")
	b.shows("settings")
	b.goTo("/history?from=10&to=12")
	b.until(`document.querySelector('.changed')?.innerText.includes('2 versions')`)
	b.goTo("/object/configmaps/default/settings?tab=history")
	b.shows("version 4 of 4")
	b.shows("The object was deleted.")
	eval[any](b, `document.querySelector('[aria-label="Previous version"]').click()`)
	b.shows("version 3 of 4")
	b.until(`document.querySelector('.yaml')?.innerText.includes('size: large')`)
	b.until(`document.querySelector('.versions')?.innerText.includes('"medium" → "large"')`)
	b.goTo("/object/configmaps/default/settings?tab=history&at=12&base=10")
	b.until(`document.querySelector('.diff .added')?.innerText.includes('size: large') && document.querySelector('.diff .removed')?.innerText.includes('size: small')`)
	b.shot("history")
}
