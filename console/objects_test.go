package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/console"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/testenv"
)

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "app", Image: "busybox:1.37",
					Command: []string{"sleep", "3600"}}},
			}},
		},
	}
}

// Lists with the server's columns that follow changes; the tabs of an object; search, keys and
// addresses.
func TestObjects(t *testing.T) {
	chromium(t)
	env := testenv.New(t, testenv.Nodes(controlplane.Simulated{}), testenv.Workloads())
	web := deployment("web", 3)
	web.Spec.Template.Spec.Containers[0].Command = []string{"sh", "-c", "echo serving; sleep 3600"}
	env.Create(t, web)
	b := open(t, start(t, console.Config{Cluster: env.RESTConfig(), Name: "test"}))

	b.goTo("/objects/deployments.apps")
	b.shows("Up-to-date")
	b.until(`[...document.querySelectorAll('tbody td')].some((td) => td.textContent === '3/3')`)
	b.shot("list")
	env.Create(t, deployment("api", 1)) // appears without a reload
	b.shows("api")
	b.until(`document.querySelector('.head .quiet')?.textContent === '2'`)

	// keys: focus the list, move, open
	eval[chromedp.Void](b, `document.querySelector('.rows').focus()`)
	b.press("j")
	b.press(kb.Enter)
	b.until(`location.pathname === '/object/deployments.apps/default/web'`)
	b.shows("As it should be")
	b.goTo("/object/deployments.apps/default/web?tab=overview")
	b.shows("Conditions")
	b.shows("MinimumReplicasAvailable")
	b.shot("detail")
	b.goTo("/object/deployments.apps/default/web?tab=yaml")
	b.shows("image: busybox:1.37")
	b.shot("yaml")
	b.goTo("/object/deployments.apps/default/web?tab=events")
	b.shows("ScalingReplicaSet")

	// tabs of consoles that may write, and of other kinds
	for _, tab := range []string{"edit", "exec"} {
		b.goTo("/object/deployments.apps/default/web?tab=" + tab)
		b.shows("MinimumReplicasAvailable")
		if eval[bool](b, `document.querySelector('main textarea, main form, main .danger') !== null`) {
			t.Errorf("the read-only console offers the tab %s", tab)
		}
	}

	// the logs of all pods of a workload, in one view
	b.goTo("/object/deployments.apps/default/web?tab=logs")
	b.shows("3 pods")
	b.until(`new Set(document.querySelector('.logs').innerText.match(/^web-\S+ │/gm)).size === 3`)
	b.goTo("/object/deployments.apps/default/web?tab=logs&find=no+such+line")
	b.until(`/^3 pods · 0 of \d+ lines/.test(document.querySelector('.bar [role=status]')?.innerText)`)

	// what changed, one click from Now: without a history, the last writes
	b.goTo("/")
	b.until(`document.querySelector('a.button')`)
	eval[chromedp.Void](b, `document.querySelector('a.button').click()`)
	b.until(`location.pathname === '/history' && location.search === '?minutes=15'`)
	b.until(`[...document.querySelectorAll('.recent li')].some((li) => li.innerText.includes('default/api') && li.innerText.includes('created'))`)
	b.shows("No history is connected")
	b.shot("recent")

	// search
	b.goTo("/")
	b.press("/")
	b.until(`document.activeElement.getAttribute('role') === 'combobox'`)
	b.press("dep")
	b.until(`document.querySelector('[role=option]')?.textContent.includes('Deployment')`)
	b.press(" api")
	b.until(`document.querySelector('[role=option]')?.textContent.includes('default/api')`)
	b.shot("search")
	b.press(kb.Enter)
	b.until(`location.pathname === '/object/deployments.apps/default/api'`)

	b.goTo("/objects/pods?namespace=kube-system")
	b.shows("No Pod in namespace kube-system")
	b.dark(true)
	b.goTo("/objects/pods")
	b.until(`document.querySelectorAll('tbody tr').length >= 4`)
	b.shot("list-dark")
}
