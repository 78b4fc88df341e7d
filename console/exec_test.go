package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/console"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/testenv"
)

// A terminal in a container, with its size, keys, output, and the command's exit code.
func TestExec(t *testing.T) {
	chromium(t)
	env := testenv.New(t, testenv.Nodes(controlplane.Processes{}))
	env.Create(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shell"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "app", Image: "none", Command: []string{"sleep", "3600"}}}},
	})
	config, err := clientcmd.BuildConfigFromFlags("", env.Kubeconfig(t)) // commands need a port
	require.NoError(t, err)
	b := open(t, start(t, console.Config{Cluster: config, Name: "test", Write: true}))
	b.goTo("/object/pods/default/shell?tab=exec")
	b.shows("Run")
	b.until(`document.querySelector('.problem') === null && [...document.querySelectorAll('.tabs a')].some((a) => a.textContent === 'Exec')`)
	run := func() { eval[chromedp.Void](b, `document.querySelector('form.bar button').click()`) }
	// retry, because the pod may not run yet
	for {
		run()
		b.until(`document.querySelector('.problem') || document.querySelector('form.bar')?.innerText.includes('Connected')`)
		b.until(`document.querySelector('.problem') || document.querySelector('.xterm-rows, .xterm-accessibility')?.innerText.trim()`)
		if eval[bool](b, `document.querySelector('.problem') === null`) {
			break
		}
	}
	b.until(`document.activeElement.classList.contains('xterm-helper-textarea')`)
	b.press(`stty size; echo $((6*7))-"<b>é</b>"` + kb.Enter)
	b.until(`/\d+ \d\d+[\s\S]*42-<b>é<\/b>/.test(document.querySelector('.xterm-rows')?.innerText.replaceAll('\u00a0', ' '))`)
	if size := eval[string](b, `document.querySelector('.xterm-rows')?.innerText.replaceAll('\u00a0', ' ').match(/^(\d+) (\d+)$/m)?.[0]`); size == "24 80" || size == "0 0" {
		t.Errorf("the command has a terminal of size %s, not the page's", size)
	}
	b.shot("exec")
	b.do(chromedp.KeyEvent("Q", chromedp.KeyModifiers(2|8))) // Ctrl+Shift+Q
	b.until(`document.activeElement.id === 'exec-command'`)
	eval[chromedp.Void](b, `document.querySelector('.xterm-helper-textarea').focus()`)
	b.press("exit 3" + kb.Enter)
	b.shows("The command has ended with exit code 3.")
}

// Only the console's own page runs commands, and only with --write.
func TestRefusedCommands(t *testing.T) {
	changes := 0
	cluster := fakeCluster(t, &changes)
	for _, tt := range []struct {
		name    string
		write   bool
		header  http.Header
		command string
		code    int
	}{
		{"read-only", false, nil, "sh", 403},
		{"foreign origin", true, http.Header{"Origin": {"https://attacker.example"}}, "sh", 403},
		{"no origin", true, http.Header{"Origin": {""}}, "sh", 403},
		{"no cookie", true, http.Header{"Cookie": {""}}, "sh", 401},
		{"no command", true, nil, "", 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := start(t, console.Config{Cluster: cluster, Write: tt.write})
			base, client := signedIn(t, c)
			dialer := websocket.Dialer{Jar: client.Jar}
			header := http.Header{"Origin": {base}}
			for k, v := range tt.header {
				header[k] = v
				if k == "Cookie" {
					dialer.Jar = nil
				}
			}
			if header.Get("Origin") == "" {
				header.Del("Origin")
			}
			query := "?namespace=default&name=x"
			if tt.command != "" {
				query += "&command=" + tt.command
			}
			conn, resp, err := dialer.Dial(strings.Replace(base, "http", "ws", 1)+"/api/exec"+query, header)
			if err == nil {
				conn.Close()
				t.Fatal("accepted")
			}
			if resp == nil || resp.StatusCode != tt.code {
				t.Errorf("%v: %+v, want %d", err, resp, tt.code)
			}
		})
	}
	assert.Equalf(t, changes, 0, "requests reached the cluster")
}
