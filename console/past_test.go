package console_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/history"
)

// served is a running kelson serve or kelson fork with its console.
type served struct {
	url    string
	client kubernetes.Interface
}

// serve starts kelson with a command and --console. It ends with the test.
func serve(t *testing.T, args ...string) served {
	t.Helper()
	kelson := os.Getenv("KELSON")
	if kelson == "" {
		t.Skip("SKIPPED: KELSON is not set to the kelson binary")
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	cmd := exec.Command(kelson, append(args, "--console", "--secure-port", "0", "--kubeconfig", kubeconfig)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		assert.NoErrorf(t, cmd.Wait(), "kelson %v", args)
	})
	address := regexp.MustCompile(`console: +(http://\S+)`)
	var s served
	for lines := bufio.NewScanner(out); s.url == "" && lines.Scan(); {
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			s.url = m[1]
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	require.NoError(t, err)
	s.client, err = kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return s
}

// The pages of kelson serve --at and kelson fork name the moment that they show. Now, Why, lists
// and History show that moment. Only the page of the fork can change objects.
func TestPast(t *testing.T) {
	chromium(t)
	data := filepath.Join(t.TempDir(), "data")
	live := serve(t, "serve", "--data-dir", data, "--history", "1h")
	maps := live.client.CoreV1().ConfigMaps("default")
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"},
		Data: map[string]string{"size": "small"}}
	create := metav1.CreateOptions{FieldManager: "kubectl-create"}
	settings, err := maps.Create(t.Context(), settings, create)
	require.NoError(t, err)
	// At the moment, a deletion waits for a finalizer.
	stuck := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stuck",
		Finalizers: []string{"example.com/cleanup"}}}
	_, err = maps.Create(t.Context(), stuck, create)
	require.NoError(t, err)
	require.NoError(t, maps.Delete(t.Context(), "stuck", metav1.DeleteOptions{}))
	settings.Data["size"] = "medium"
	settings, err = maps.Update(t.Context(), settings, metav1.UpdateOptions{FieldManager: "kubectl-edit"})
	require.NoError(t, err)
	moment := settings.ResourceVersion
	// Afterwards, the deletion ends, settings changes again, and another object appears.
	_, err = maps.Patch(t.Context(), "stuck", "application/merge-patch+json",
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	settings.Data["size"] = "large"
	settings, err = maps.Update(t.Context(), settings, metav1.UpdateOptions{FieldManager: "kubectl-edit"})
	require.NoError(t, err)
	_, err = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default",
		Name: "later"}}, create)
	require.NoError(t, err)
	for { // wait until the history contains the last write
		h, err := history.Open(data)
		if err == nil {
			found := h.Find("configmaps")
			complete := len(found) > 0
			if complete {
				_, _, complete, _ = h.At(h.Newest()).Get(history.Key{Resource: "configmaps", Namespace: "default",
					Name: "later"})
			}
			h.Close()
			if complete {
				break
			}
		}
		select {
		case <-t.Context().Done():
			t.Fatal(err)
		case <-time.After(50 * time.Millisecond): // polls a file that another process writes
		}
	}

	past := openURL(t, serve(t, "serve", "--data-dir", data, "--at", moment).url)
	to := filepath.Join(t.TempDir(), "fork")
	forked := serve(t, "fork", "--data-dir", data, "--at", moment, "--to", to, "--console-write")
	fork := openURL(t, forked.url)
	for name, b := range map[string]*tab{"past": past, "fork": fork} {
		label := "The state of the cluster at revision " + moment + ","
		if name == "fork" {
			label = "The cluster has continued from revision " + moment + ","
		}
		// Now shows the objects that were not ready at the moment.
		b.shows(label)
		b.until(`document.querySelector('.items')?.innerText.includes('example.com/cleanup')`)
		b.shot(name + "-now")
		b.goTo("/objects/configmaps")
		b.until(`[...document.querySelectorAll('.rows tbody a')].some((a) => a.textContent === 'settings')`)
		b.shows(label)
		if eval[bool](b, `document.querySelector('.rows').innerText.includes('later')`) {
			t.Errorf("%s: a later object is listed", name)
		}
		b.goTo("/object/configmaps/default/settings?tab=overview")
		b.until(`document.querySelector('.overview')?.innerText.includes('medium')`)
		canEdit := `[...document.querySelectorAll('.tabs a')].some((a) => a.textContent === 'Edit')`
		if name == "fork" {
			b.until(canEdit)
		} else if eval[bool](b, canEdit) {
			t.Errorf("%s: Edit is offered", name)
		}
		// Why shows which manager had set each field.
		b.goTo("/object/configmaps/default/settings?tab=why")
		b.until(`[...document.querySelectorAll('.blame tr')].some((tr) => /\.data\.size\s+medium\s+kubectl-edit/.test(tr.innerText))`)
		b.shows(label)
		b.shot(name + "-why")
		// History has all versions, first selects that of the moment, and marks later ones.
		b.goTo("/object/configmaps/default/settings?tab=history")
		b.shows("version 2 of 3")
		b.shows("the version of the moment that is shown")
		b.until(`document.querySelector('pre.yaml')?.textContent.includes('size: medium')`)
		b.shot(name + "-history")
		b.goTo("/object/configmaps/default/settings?tab=history&at=" + settings.ResourceVersion)
		b.shows("after the moment that is shown")
		b.until(`document.querySelector('pre.yaml')?.textContent.includes('size: large')`)
		b.goTo("/history?resource=configmaps")
		b.until(`[...document.querySelectorAll('tbody a')].some((a) => a.textContent.includes('settings'))`)
		b.shows(label)
		// Other views are empty and show no error.
		for _, path := range []string{"/why", "/timeline", "/reconcile", "/map", "/compare", "/plan", "/rights"} {
			b.goTo(path)
			b.loaded()
			b.shows(label)
			problem := eval[string](b, `document.querySelector('[role=alert]')?.innerText ?? ''`)
			assert.Equalf(t, problem, "", "%s: %s shows a problem", name, path)
		}
	}
	// The fork continues: the deletion ends there, and the past state does not change.
	_, err = forked.client.CoreV1().ConfigMaps("default").Patch(t.Context(), "stuck",
		"application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	fork.goTo("/")
	fork.until(`!document.querySelector('main').innerText.includes('example.com/cleanup')`)
	past.goTo("/")
	past.until(`document.querySelector('.items')?.innerText.includes('example.com/cleanup')`)
	if response := eval[int](past, `fetch('/api/object?resource=configmaps&namespace=default&name=settings', {method: 'DELETE'}).then((r) => r.status)`); response != 403 && response != 405 {
		t.Errorf("the page of the past answers a deletion with %d", response)
	}
}
