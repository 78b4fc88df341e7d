package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// startWebPod starts a pod named web that serves its working directory over HTTP. The pod waits for
// the web server, which is copied into it, because a pod does not see the files of this test.
func startWebPod(t *testing.T, kubectl func(args ...string) string, port int) {
	t.Helper()
	kubectl("run", "web", "--image=none", fmt.Sprint("--port=", port), "--env=GREETING=hello", "--command", "--",
		"sh", "-c", fmt.Sprint("until [ -e copied ]; do sleep 0.05; done; exec ./webserver ", port))
	kubectl("wait", "pod/web", "--for=condition=Ready", "--timeout=30s")
	kubectl("cp", built(t, webserver), "web:webserver")
	kubectl("exec", "web", "--", "touch", "copied")
	require.Eventually(t, "the web server listens", func() bool {
		conn, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// kubectl's commands that enter containers, over both of kubectl's protocols.
func TestKubectlEntersContainers(t *testing.T) {
	require.Long(t, "takes seconds")
	s := startServer(t, "--in-memory", "--node=process", "--kubeconfig", filepath.Join(t.TempDir(), "kubeconfig"))
	kubectl := kubectlOf(t, s)
	port := freePort(t)
	startWebPod(t, kubectl, port)
	enterContainers(t, s, port)
	t.Run("proxy", func(t *testing.T) {
		kubectl("exec", "web", "-c", "web", "--", "sh", "-c", "echo proxied > page.txt")
		for _, at := range []string{"pods/web", fmt.Sprint("pods/web:", port), fmt.Sprint("pods/http:web:", port)} {
			wantContains(t, at, kubectl("get", "--raw", "/api/v1/namespaces/default/"+at+"/proxy/page.txt"), "proxied")
		}
		wantContains(t, "node", kubectl("get", "--raw", "/api/v1/nodes/kelson/proxy/pods"), `"name":"web"`)
		wantContains(t, "log", kubectl("get", "--raw",
			"/api/v1/nodes/kelson/proxy/containerLogs/default/web/web?tailLines=1"), "GET /page.txt")
	})
	t.Run("shutdown", func(t *testing.T) {
		cmd := exec.Command(built(t, kubectlBinary), "exec", "web", "--", "sh", "-c", "echo begun; sleep 300")
		cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		_, err = io.ReadFull(out, make([]byte, len("begun\n")))
		require.NoError(t, err)
		if code := s.stop(syscall.SIGTERM); code != 0 {
			t.Errorf("the server ended with %d\n%s", code, s.stderr)
		}
		if err := cmd.Wait(); err == nil {
			t.Error("the command continued without its server")
		}
	})
}

// enterContainers runs kubectl's commands that enter containers of the pod web, which serves HTTP
// on a port, over both of kubectl's protocols.
func enterContainers(t *testing.T, s *server, port int) {
	for _, protocol := range []struct{ name, webSockets string }{{"WebSocket", "true"}, {"SPDY", "false"}} {
		t.Run(protocol.name, func(t *testing.T) {
			env := []string{"KUBECONFIG=" + s.kubeconfig, "HOME=" + t.TempDir(),
				"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=" + protocol.webSockets,
				"KUBECTL_PORT_FORWARD_WEBSOCKETS=" + protocol.webSockets}
			t.Run("exec", func(t *testing.T) { execs(t, env) })
			t.Run("terminal", func(t *testing.T) { terminals(t, env) })
			t.Run("cp", func(t *testing.T) { copies(t, env) })
			t.Run("port-forward", func(t *testing.T) { forwards(t, env, port) })
			t.Run("attach", func(t *testing.T) { attaches(t, env, strings.ToLower(protocol.name)) })
		})
	}
}

// kubectlRun runs kubectl with an input, which must end with a code.
func kubectlRun(t *testing.T, env []string, input string, code int, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), built(t, kubectlBinary), args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), strings.NewReader(input), &stdout,
		&stderr
	_ = cmd.Run() // the exit code is checked below
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("kubectl %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, code, &stdout, &stderr)
	}
	return outcome{code, stdout.String(), stderr.String()}
}

func execs(t *testing.T, env []string) {
	got := kubectlRun(t, env, "", 3, "exec", "web", "-c", "web", "--", "sh", "-c",
		"echo $GREETING $HOSTNAME; echo wrong >&2; exit 3")
	if got.stdout != "hello web\n" || !strings.HasPrefix(got.stderr, "wrong\n") {
		t.Errorf("%+v", got)
	}
	big := strings.Repeat("0123456789abcdef", 64<<10)
	if got := kubectlRun(t, env, big, 0, "exec", "-i", "web", "--", "cat"); got.stdout != big {
		t.Errorf("the echo of a megabyte has %d bytes", len(got.stdout))
	}
	wantContains(t, "no command", kubectlRun(t, env, "", 1, "exec", "web", "--", "no-such-command").stderr,
		`"no-such-command": executable file not found in $PATH`)
	wantContains(t, "no container", kubectlRun(t, env, "", 1, "exec", "web", "-c", "none", "--", "ls").stderr,
		"container none is not valid for pod web")
	wantContains(t, "no pod", kubectlRun(t, env, "", 1, "exec", "none", "--", "ls").stderr, `pods "none" not found`)
}

// terminals runs a command that waits for the terminal's first size, for a second size that is set
// while it runs, and for a line of input.
func terminals(t *testing.T, env []string) {
	const script = `until [ "$(stty size)" = "33 91" ]; do sleep 0.05; done; echo first size
until [ "$(stty size)" = "40 100" ]; do sleep 0.05; done; echo second size
read x; echo got-$x; exit 4`
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, built(t, kubectlBinary), "exec", "-it", "web", "--", "sh", "-c", script)
	cmd.Env = append(os.Environ(), env...)
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 33, Cols: 91})
	require.NoError(t, err)
	defer terminal.Close()
	screen := bufio.NewReader(terminal)
	if !screenShows(t, screen, "first size") {
		return
	}
	require.NoError(t, pty.Setsize(terminal, &pty.Winsize{Rows: 40, Cols: 100}))
	if !screenShows(t, screen, "second size") {
		return
	}
	_, err = terminal.Write([]byte("typed\n"))
	require.NoError(t, err)
	screenShows(t, screen, "got-typed")
	// returns an error when the last writer has closed the terminal
	_, _ = io.Copy(io.Discard, screen)
	_ = cmd.Wait()
	assert.Equalf(t, cmd.ProcessState.ExitCode(), 4, "exit")
}

// screenShows reads lines up to one that contains want and reports whether one does.
func screenShows(t *testing.T, screen *bufio.Reader, want string) bool {
	t.Helper()
	var read strings.Builder
	for {
		line, err := screen.ReadString('\n')
		read.WriteString(line)
		if strings.Contains(line, want) {
			return true
		}
		if err != nil {
			t.Errorf("the terminal ended without %q: %v\n%s", want, err, read.String())
			return false
		}
	}
}

func copies(t *testing.T, env []string) {
	dir := t.TempDir()
	there, back := filepath.Join(dir, "there"), filepath.Join(dir, "back")
	require.NoError(t, os.WriteFile(there, bytes.Repeat([]byte("data\n"), 100_000), 0o644))
	kubectlRun(t, env, "", 0, "cp", there, "web:copy")
	kubectlRun(t, env, "", 0, "cp", "web:copy", back)
	want, _ := os.ReadFile(there)
	if got, err := os.ReadFile(back); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the copy has %d bytes, %v", len(got), err)
	}
}

func forwards(t *testing.T, env []string, port int) {
	cmd := exec.CommandContext(t.Context(), built(t, kubectlBinary), "port-forward", "web", fmt.Sprint(":", port))
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	line := make([]byte, 200)
	n, err := out.Read(line)
	require.NoError(t, err)
	var local int
	if _, err := fmt.Sscanf(string(line[:n]), "Forwarding from 127.0.0.1:%d", &local); err != nil {
		t.Fatalf("%v: %s", err, line[:n])
	}
	go io.Copy(io.Discard, out)
	for range 3 {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", local))
		require.NoError(t, err)
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		wantContains(t, "page", string(body), `<a href="webserver">`)
	}
}

// attaches runs a pod with its own standard input, and an ephemeral container in another pod.
func attaches(t *testing.T, env []string, name string) {
	got := kubectlRun(t, env, "one\ntwo\n", 0, "run", "echo-"+name, "-i", "--rm", "--restart=Never", "--image=none",
		"--command", "--",
		"sh", "-c", "while read line; do echo \"line $line\"; done")
	wantContains(t, "attached", got.stdout, "line one\n", "line two\n")
	got = kubectlRun(t, env, "echo in $HOSTNAME\nexit\n", 0, "debug", "web", "-i", "--image=none", "--profile=general",
		"--container=debug-"+name, "--", "sh")
	if !strings.Contains(got.stdout, "in web\n") {
		t.Errorf("kubectl debug: got output %q, and these errors:\n%s", got.stdout, got.stderr)
	}
}
