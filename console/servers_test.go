package console_test

import (
	"bufio"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/console"
	"kelson.dev/internal/require"
)

// Every view on kelson dev examples/cnat.
func TestDevelopmentLoop(t *testing.T) {
	chromium(t)
	kelson := os.Getenv("KELSON")
	if kelson == "" {
		t.Skip("SKIPPED: KELSON is not set to the kelson binary")
	}
	dev := exec.Command(kelson, "dev", "examples/cnat", "--node=simulated")
	dev.Dir = ".."
	dev.Stderr = os.Stderr
	out, err := dev.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, dev.Start())
	t.Cleanup(func() {
		_ = dev.Process.Signal(syscall.SIGTERM)
		_ = dev.Wait() // the test has asked it to end
	})
	address := regexp.MustCompile(`console +(http://\S+)`)
	url := ""
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			url = m[1]
		}
		if strings.Contains(lines.Text(), "⟳ at reconciled") {
			break
		}
	}
	if url == "" {
		t.Fatal("kelson dev printed no address of a console")
	}
	go func() {
		for lines.Scan() { // so that it can continue to print
		}
	}()
	b := openURL(t, url)
	b.everyView("cnat", "ats.cnat.programming-kubernetes.info/default/example-at")
	b.goTo("/objects/ats.cnat.programming-kubernetes.info")
	b.shows("example-at")
	b.goTo("/reconcile")
	b.shows("reconciles")
	b.until(`document.querySelector('tbody')?.innerText.includes('example-at')`)
	b.shot("cnat-reconciles")
	b.goTo("/timeline")
	b.until(`document.querySelector('.head .quiet')?.textContent.includes('marks')`)
	b.shot("cnat-timeline")
	b.goTo("/why")
	b.until(`[...document.querySelectorAll('tbody a')].some((a) => a.href.includes('tab=why'))`)
	b.goTo("/object/ats.cnat.programming-kubernetes.info/default/example-at?tab=why")
	b.shows("Who set which field")
	b.shot("cnat-why")
	b.goTo("/map?namespace=default")
	b.shows("What controllers watch and write")
	b.until(`document.querySelectorAll('.edge.owns').length > 0`)
	b.shot("cnat-map")
	b.goTo("/")
	b.until(`document.querySelector('.calm:not(.quiet), .summary')`)
	b.shot("cnat-now")
	b.goTo("/plan")
	b.until(`[...document.querySelectorAll('main button')].some((k) => k.textContent === 'Make a plan')`)
	eval[any](b, `[...document.querySelectorAll('main button')].find((k) => k.textContent === 'Make a plan').click()`)
	// go builds the operator first
	b.within(5*time.Minute, `document.querySelector('.head .quiet')?.textContent.includes('on a copy of')`)
	b.shot("cnat-plan")
}

// The console of a kube-apiserver, which has no controllers.
func TestOnAServer(t *testing.T) {
	chromium(t)
	kubeconfig := os.Getenv("KELSON_TEST_KUBECONFIG")
	if kubeconfig == "" {
		t.Skip("SKIPPED: KELSON_TEST_KUBECONFIG is not set")
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	_, err = client.AppsV1().Deployments("default").Create(t.Context(), deployment("web", 3),
		metav1.CreateOptions{})
	require.NoError(t, err)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lonely",
		Finalizers: []string{"example.com/never"}}, Spec: corev1.PodSpec{
		ServiceAccountName: "none", AutomountServiceAccountToken: new(bool),
		Containers: []corev1.Container{{Name: "app", Image: "busybox:1.37"}},
	}}
	_, err = client.CoreV1().ServiceAccounts("default").Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "none"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	b := open(t, start(t, console.Config{Cluster: config, Name: "kube-apiserver", Write: true}))
	b.goTo("/objects/deployments.apps")
	b.until(`[...document.querySelectorAll('tbody td')].some((td) => td.textContent === '0/3')`)
	b.goTo("/objects/pods")
	b.shows("Pending")
	require.NoError(t, client.CoreV1().Pods("default").Delete(t.Context(), "lonely",
		metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	b.until(`document.querySelector('tr.deleting') !== null`)
	b.goTo("/")
	b.shows("for finalizers: example.com/never")
	b.shows("waits for replicas")
	b.shot("kube-apiserver")
	b.goTo("/object/pods/default/lonely")
	b.shows("example.com/never")
	b.goTo("/object/pods/default/lonely?tab=logs")
	b.shows("The log has ended.") // the pod has no node
	b.everyView("kube-apiserver", "deployments.apps/default/web")
	b.goTo("/map")
	b.shows("lonely")
	b.press("/")
	b.press("lonely")
	b.until(`document.querySelector('[role=option]')?.innerText.includes('default/lonely')`)
}
