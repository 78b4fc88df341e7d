package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// webPod is a pod that really serves its own directory over HTTP.
func webPod(port int) []string {
	return []string{"run", "web", "--image=none", fmt.Sprint("--port=", port), "--env=GREETING=hello", "--command", "--",
		"python3", "-m", "http.server", fmt.Sprint(port), "--bind", "127.0.0.1"}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// The installed kubectl runs commands in containers over both of its protocols. CTRL-05
func TestKubectlEntersContainers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("SKIPPED: python3 is not installed")
	}
	s := startServer(t, "--in-memory", "--node=process", "--kubeconfig", filepath.Join(t.TempDir(), "kubeconfig"))
	kubectl := kubectlOf(t, s)
	port := freePort(t)
	kubectl(webPod(port)...)
	kubectl("wait", "pod/web", "--for=condition=Ready", "--timeout=30s")
	for _, protocol := range []struct{ name, webSockets string }{{"WebSocket", "true"}, {"SPDY", "false"}} {
		t.Run(protocol.name, func(t *testing.T) {
			env := []string{"KUBECONFIG=" + s.kubeconfig, "HOME=" + t.TempDir(),
				"KUBECTL_REMOTE_COMMAND_WEBSOCKETS=" + protocol.webSockets, "KUBECTL_PORT_FORWARD_WEBSOCKETS=" + protocol.webSockets}
			t.Run("exec", func(t *testing.T) { execs(t, env) })
			t.Run("terminal", func(t *testing.T) { terminals(t, env) })
			t.Run("cp", func(t *testing.T) { copies(t, env) })
			t.Run("port-forward", func(t *testing.T) { forwards(t, env, port) })
			t.Run("attach", func(t *testing.T) { attaches(t, env, strings.ToLower(protocol.name)) })
		})
	}
	t.Run("proxy", func(t *testing.T) {
		kubectl("exec", "web", "-c", "web", "--", "sh", "-c", "echo proxied > page.txt")
		for _, at := range []string{"pods/web", fmt.Sprint("pods/web:", port), fmt.Sprint("pods/http:web:", port)} {
			wantContains(t, at, kubectl("get", "--raw", "/api/v1/namespaces/default/"+at+"/proxy/page.txt"), "proxied")
		}
		wantContains(t, "node", kubectl("get", "--raw", "/api/v1/nodes/kelson/proxy/pods"), `"name":"web"`)
		wantContains(t, "log", kubectl("get", "--raw", "/api/v1/nodes/kelson/proxy/containerLogs/default/web/web?tailLines=1"), "GET /page.txt")
	})
	t.Run("shutdown", func(t *testing.T) {
		cmd := exec.Command("kubectl", "exec", "web", "--", "sh", "-c", "echo begun; sleep 300")
		cmd.Env = append(os.Environ(), "KUBECONFIG="+s.kubeconfig)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, len("begun\n"))); err != nil {
			t.Fatal(err)
		}
		if code := s.stop(syscall.SIGTERM); code != 0 {
			t.Errorf("the server ended with %d\n%s", code, s.stderr)
		}
		if err := cmd.Wait(); err == nil {
			t.Error("the command went on without its server")
		}
	})
}

// kubectlRun runs kubectl with an input, which must end with a code.
func kubectlRun(t *testing.T, env []string, input string, code int, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "kubectl", args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), strings.NewReader(input), &stdout, &stderr
	_ = cmd.Run() // its code says all
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Errorf("kubectl %s: exit %d, want %d\n%s%s", strings.Join(args, " "), got, code, &stdout, &stderr)
	}
	return outcome{code, stdout.String(), stderr.String()}
}

func execs(t *testing.T, env []string) {
	got := kubectlRun(t, env, "", 3, "exec", "web", "-c", "web", "--", "sh", "-c", "echo $GREETING $HOSTNAME; echo wrong >&2; exit 3")
	if got.stdout != "hello web\n" || !strings.HasPrefix(got.stderr, "wrong\n") {
		t.Errorf("%+v", got)
	}
	big := strings.Repeat("0123456789abcdef", 64<<10)
	if got := kubectlRun(t, env, big, 0, "exec", "-i", "web", "--", "cat"); got.stdout != big {
		t.Errorf("a megabyte came back as %d bytes", len(got.stdout))
	}
	wantContains(t, "no command", kubectlRun(t, env, "", 1, "exec", "web", "--", "no-such-command").stderr, `"no-such-command": executable file not found in $PATH`)
	wantContains(t, "no container", kubectlRun(t, env, "", 1, "exec", "web", "-c", "none", "--", "ls").stderr, "container none is not valid for pod web")
	wantContains(t, "no pod", kubectlRun(t, env, "", 1, "exec", "none", "--", "ls").stderr, `pods "none" not found`)
}

func terminals(t *testing.T, env []string) {
	cmd := exec.CommandContext(t.Context(), "kubectl", "exec", "-it", "web", "--", "sh", "-c", "stty size; read x; echo got-$x; exit 4")
	cmd.Env = append(os.Environ(), env...)
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 33, Cols: 91})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if _, err := terminal.Write([]byte("typed\n")); err != nil {
		t.Fatal(err)
	}
	screen, _ := io.ReadAll(terminal) // ends with an error when the last writer is gone
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 4 {
		t.Errorf("exit %d", code)
	}
	wantContains(t, "screen", string(screen), "got-typed")
	if !regexp.MustCompile(`33 91|0 0`).Match(screen) { // the size may come after the command has looked
		t.Errorf("size of the terminal: %s", screen)
	}
}

func copies(t *testing.T, env []string) {
	dir := t.TempDir()
	there, back := filepath.Join(dir, "there"), filepath.Join(dir, "back")
	if err := os.WriteFile(there, bytes.Repeat([]byte("data\n"), 100_000), 0o644); err != nil {
		t.Fatal(err)
	}
	kubectlRun(t, env, "", 0, "cp", there, "web:copy")
	kubectlRun(t, env, "", 0, "cp", "web:copy", back)
	want, _ := os.ReadFile(there)
	if got, err := os.ReadFile(back); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
}

func forwards(t *testing.T, env []string, port int) {
	cmd := exec.CommandContext(t.Context(), "kubectl", "port-forward", "web", fmt.Sprint(":", port))
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	line := make([]byte, 200)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	var local int
	if _, err := fmt.Sscanf(string(line[:n]), "Forwarding from 127.0.0.1:%d", &local); err != nil {
		t.Fatalf("%v: %s", err, line[:n])
	}
	go io.Copy(io.Discard, out)
	for range 3 {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", local))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		wantContains(t, "page", string(body), "Directory listing")
	}
}

// attaches runs a pod with an input of its own, and an ephemeral container beside another.
func attaches(t *testing.T, env []string, name string) {
	got := kubectlRun(t, env, "one\ntwo\n", 0, "run", "echo-"+name, "-i", "--rm", "--restart=Never", "--image=none", "--command", "--",
		"sh", "-c", "while read line; do echo \"line $line\"; done")
	wantContains(t, "attached", got.stdout, "line one\n", "line two\n")
	got = kubectlRun(t, env, "echo in $HOSTNAME\nexit\n", 0, "debug", "web", "-i", "--image=none", "--profile=general", "--container=debug-"+name, "--", "sh")
	wantContains(t, "debugged", got.stdout, "in web\n")
}
