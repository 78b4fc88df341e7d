//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// terminal is a terminal that tmux emulates. It has the text on the screen, and all bytes that
// programs wrote to it.
type terminal struct {
	t       *testing.T
	socket  string
	log     string
	started int // commands
}

// openTerminal starts a shell in a terminal of 100 columns. It ends with the test.
func openTerminal(t *testing.T, env ...string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("SKIPPED: tmux is not installed")
	}
	dir := t.TempDir()
	term := &terminal{t: t, socket: filepath.Join(dir, "tmux"), log: filepath.Join(dir, "log")}
	args := []string{"-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "40"}
	for _, e := range append(env, "HOME="+dir, "NO_COLOR=") {
		args = append(args, "-e", e)
	}
	term.tmux(append(args, "sh")...)
	t.Cleanup(func() { term.tmux("kill-server") })
	term.tmux("pipe-pane", "cat >>"+term.log)
	term.enter("PS1='$ '") // dash ignores the variable of the environment
	return term
}

func (term *terminal) tmux(args ...string) string {
	term.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", term.socket}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// enter types a line.
func (term *terminal) enter(line string) {
	term.t.Helper()
	term.tmux("send-keys", "-l", line)
	term.tmux("send-keys", "Enter")
}

// screen returns the text on the screen, with the escape sequences of its colors.
func (term *terminal) screen() string {
	term.t.Helper()
	return term.tmux("capture-pane", "-p", "-e")
}

// start clears the screen and starts a command in the shell. After its end, the shell prints the
// returned text. The text differs from those of earlier commands, which the screen still shows
// until the shell clears it. The test types one line: a second line, typed before the first command
// clears the screen, would be echoed and then cleared.
func (term *terminal) start(line string) (end string) {
	term.t.Helper()
	term.started++
	term.enter(fmt.Sprintf(`clear; %s; printf '%%s%%d\n' ended- %d`, line, term.started))
	return fmt.Sprintf("ended-%d", term.started)
}

// run runs a command in the shell until it ends, and returns the screen afterwards.
func (term *terminal) run(line string) string {
	term.t.Helper()
	end := term.start(line)
	term.shows(end)
	shown, _, _ := strings.Cut(term.screen(), end)
	return shown
}

// shows waits until the screen contains a text, whatever its colors.
func (term *terminal) shows(text string) {
	term.t.Helper()
	require.Eventually(term.t, "the terminal shows "+text, func() bool {
		return strings.Contains(term.tmux("capture-pane", "-p"), text)
	})
}

// wrote waits until programs have written a text to the terminal, even if it was overwritten since.
func (term *terminal) wrote(text string) {
	term.t.Helper()
	require.Eventually(term.t, "programs write "+text, func() bool {
		data, err := os.ReadFile(term.log)
		return err == nil && strings.Contains(string(data), "\r\x1b[K"+text)
	})
}

// On a terminal, all commands that print values of objects escape characters that would move the
// cursor, change the order of the text or be invisible. A pipe gets the values as they are.
func TestDeceptiveValuesOnATerminal(t *testing.T) {
	require.Long(t, "takes seconds")
	kelson, err := filepath.Abs(built(t, binary))
	require.NoError(t, err)
	s := startServer(t, "--in-memory", "--node=none")
	kubectl := kubectlOf(t, s)
	file := filepath.Join(t.TempDir(), "test.history")
	recorder := exec.Command(kelson, "record", "--kubeconfig", s.kubeconfig, "--out", file)
	require.NoError(t, recorder.Start())
	t.Cleanup(func() { recorder.Process.Kill() })
	history := func() string {
		got := command(t, nil, kelson, "history", "cm/evil", "--file", file)
		return got.stdout + got.stderr
	}
	kubectl("create", "configmap", "evil", "--from-literal=step=one")
	require.Eventually(t, "the recording has the object", func() bool { return strings.Contains(history(), "created") })
	const deceptive = "\u009b31m\u202erorre\u2066\u200b\u2028"
	created := kubectl("get", "configmap", "evil", "-o", "jsonpath={.metadata.resourceVersion}")
	kubectl("patch", "configmap", "evil", "-p", `{"data":{"step":"`+deceptive+`"},"metadata":{"annotations":{"why":"`+
		deceptive+`"}}}`)
	require.Eventually(t, "the recording has the change", func() bool { return strings.Contains(history(), ".data.step") })
	recorder.Process.Signal(syscall.SIGINT)
	assert.NoError(t, recorder.Wait())

	piped := kubectl("get", "configmap", "evil", "-o", "jsonpath={.data.step}")
	assert.Equalf(t, piped, deceptive, "a pipe gets")
	term := openTerminal(t, "KELSON="+kelson, "KUBECONFIG="+s.kubeconfig)
	for _, line := range []string{
		"history cm/evil --file " + file, "history cm/evil -o yaml --file " + file,
		"diff --from " + created + " cm --file " + file, "history blame cm/evil --file " + file,
		"blame cm/evil", "why cm/evil", "kubectl get cm evil -o json", "kubectl get cm evil -o 'jsonpath={.data.step}'",
		"kubectl -n default describe cm evil",
	} {
		shown := term.run("$KELSON " + line + " 2>&1")
		if !strings.HasPrefix(line, "why") && !strings.Contains(shown, `\u202e`) {
			t.Errorf("%s shows no escape:\n%s", line, shown)
		}
		written, err := os.ReadFile(term.log)
		require.NoError(t, err)
		for _, r := range deceptive {
			if r > 0x7f && strings.ContainsRune(string(written), r) {
				t.Fatalf("%s writes %U to the terminal:\n%s", line, r, shown)
			}
		}
	}
}

// On a terminal, long operations show their steps in one line, which they remove at the end, and
// results have colors. Elsewhere, the output has neither, and is the same each time.
func TestOnATerminal(t *testing.T) {
	require.Long(t, "takes seconds")
	kelson, err := filepath.Abs(built(t, binary))
	require.NoError(t, err)
	s := startServer(t, "--in-memory")
	term := openTerminal(t, "KELSON="+kelson, "KUBECONFIG="+s.kubeconfig)
	kubectl := kubectlOf(t, s)
	dir := t.TempDir()

	// While vet waits for its input, the screen shows its step, and how long the step has taken.
	manifest := filepath.Join(dir, "manifest")
	require.NoError(t, syscall.Mkfifo(manifest, 0o600))
	term.enter("$KELSON vet " + manifest)
	term.shows("reading manifests (1s)")
	term.shows("reading manifests (2s)")
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nsize: 1\n"
	require.NoError(t, os.WriteFile(manifest, []byte(text), 0o600))
	term.shows("1 objects: 1 errors, 0 warnings")
	term.wrote("checking 1 objects")
	shown := term.screen()
	if strings.Contains(shown, "reading manifests") || strings.Contains(shown, "checking") {
		t.Errorf("progress remains on the screen:\n%s", shown)
	}
	if !regexp.MustCompile(`\x1b\[31m[^\n]*size`).MatchString(shown) {
		t.Errorf("the error is not red:\n%q", shown)
	}

	// Until Ctrl-C, record shows how many versions it has recorded.
	file := filepath.Join(dir, "recorded")
	term.enter("clear; $KELSON record --out " + file)
	term.shows("recording https://")
	term.wrote("recorded ")
	kubectl("create", "configmap", "settings", "--from-literal=size=small")
	before := kubectl("get", "configmap", "settings", "-o", "jsonpath={.metadata.resourceVersion}")
	kubectl("patch", "configmap", "settings", "-p", `{"data":{"size":"large"}}`)
	require.Eventually(t, "the history has both versions", func() bool {
		got := command(t, nil, kelson, "history", "--file", file, "configmap/settings", "-o", "json")
		return strings.Contains(got.stdout, `large`)
	})
	line := regexp.MustCompile(`(?m)^recorded [0-9]+ versions of [0-9]+ objects \([0-9]+s\)$`)
	require.Eventually(t, "the screen counts versions", func() bool {
		return line.MatchString(term.tmux("capture-pane", "-p"))
	})
	term.tmux("send-keys", "C-c")
	require.Eventually(t, "record ends", func() bool {
		return strings.HasSuffix(strings.TrimSpace(term.tmux("capture-pane", "-p")), "\n$")
	})
	if shown := term.tmux("capture-pane", "-p"); strings.Contains(shown, "versions of") {
		t.Errorf("progress remains on the screen:\n%s", shown)
	}

	// history and diff
	shown = term.run("$KELSON history --file " + file + " configmap/settings")
	term.wrote("reading the history " + file[:20])
	term.wrote("comparing versions")
	if !strings.Contains(shown, "\x1b[32m\"large\"") || !strings.Contains(shown, "\x1b[31m\"small\"") ||
		strings.Contains(shown, "comparing") || strings.Contains(shown, "reading") {
		t.Errorf("history on a terminal:\n%q", shown)
	}
	shown = term.run("$KELSON diff --file " + file + " --from " + before + " configmaps")
	term.wrote("comparing objects")
	if !strings.Contains(shown, "\x1b[32m\"large\"") || strings.Contains(shown, "comparing") {
		t.Errorf("diff on a terminal:\n%q", shown)
	}
	if shown := term.run("NO_COLOR=1 $KELSON diff --file " + file + " --from " + before + " configmaps"); strings.Contains(shown, "\x1b[3") || !strings.Contains(shown, `"small" → "large"`) {
		t.Errorf("diff with NO_COLOR:\n%q", shown)
	}
	// Data is the same on a terminal.
	if shown := term.run("$KELSON diff --file " + file + " --from " + before + " configmaps -o json"); !json.Valid([]byte(shown)) {
		t.Errorf("diff -o json on a terminal:\n%q", shown)
	}

	// deploy shows kubectl's lines above the progress.
	project, err := filepath.Abs("../../examples/cnat")
	require.NoError(t, err)
	term.shows(term.start("$KELSON deploy --generate=false --image example.com/cnat:v1 " + project))
	term.wrote("applying ")
	lines := regexp.MustCompile(`(?m)^.*serverside-applied$`).FindAllString(term.tmux("capture-pane", "-p", "-S",
		"-200"), -1)
	if len(lines) < 5 {
		t.Errorf("deploy on a terminal:\n%s", term.screen())
	}
	for _, line := range lines {
		if !regexp.MustCompile(`^[a-z0-9.]+/[a-z0-9.:-]+ serverside-applied$`).MatchString(line) {
			t.Errorf("a line of kubectl is mixed with progress: %q", line)
		}
	}
	if shown := term.tmux("capture-pane", "-p", "-S", "-200"); strings.Contains(shown, "applying") {
		t.Errorf("progress remains on the screen:\n%s", shown)
	}

	// elsewhere
	require.NoError(t, os.WriteFile(manifest+".yaml", []byte(text), 0o600))
	for _, args := range [][]string{
		{"vet", manifest + ".yaml"}, {"history", "--file", file, "configmap/settings"},
		{"diff", "--file", file, "--from", before},
		{"vet", manifest + ".yaml", "-o", "json"}, {"history", "--file", file, "configmap/settings", "-o", "yaml"},
		{"diff", "--file", file, "--from", before, "-o", "json"},
	} {
		first, second := command(t, nil, kelson, args...), command(t, nil, kelson, args...)
		if first != second {
			t.Errorf("%v prints %+v, then %+v", args, first, second)
		}
		if first.stderr != "" || first.stdout == "" || strings.ContainsAny(first.stdout, "\x1b\r") {
			t.Errorf("%v without a terminal: %+v", args, first)
		}
	}
}
