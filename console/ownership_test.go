package console_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/console"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/testenv"
)

// The view Map shows owners, selectors and references. If there are many objects, it shows one node
// per kind.
func TestMap(t *testing.T) {
	chromium(t)
	env := testenv.New(t, testenv.Nodes(controlplane.Simulated{}), testenv.Workloads())
	env.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}})
	web := deployment("web", 3)
	web.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
	env.Create(t, web)
	env.Create(t, deployment("api", 2))
	env.Create(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}},
		}})
	b := open(t, start(t, console.Config{Cluster: env.RESTConfig(), Name: "test"}))
	b.goTo("/map?namespace=default")
	// 2 Deployments, 2 ReplicaSets, 5 Pods, Service, ConfigMap
	b.until(`document.querySelectorAll('.node').length === 11`)
	b.until(`document.querySelectorAll('.edge.owns').length === 7 && document.querySelectorAll('.edge.selects').length === 3 && document.querySelectorAll('.edge.refers').length === 3`)
	b.until(`[...document.querySelectorAll('.map .group')].some((g) => g.textContent === 'default')`)
	b.shot("map")

	// health: the Pod that no node can run, and its owners
	large := deployment("large", 1)
	large.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1000")}
	env.Create(t, large)
	b.until(`[...document.querySelectorAll('.node.bad, .node.wait')].some((n) => n.textContent.includes('Pod large'))`)
	b.goTo("/map?namespace=default&problems=true")
	b.until(`document.querySelectorAll('.node').length === 3`)
	b.goTo("/map?namespace=default")

	scaled := deployment("many", 320)
	env.Create(t, scaled)
	b.until(`document.querySelector('.head')?.innerText.includes('grouped by kind')`)
	b.until(`[...document.querySelectorAll('.node')].some((n) => n.textContent.includes('× 3'))`)
	b.shot("map-joined")
}
