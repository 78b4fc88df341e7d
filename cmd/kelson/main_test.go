package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"kelson.dev/internal/require"
)

// binary returns the binary that the tests of this folder run: $KELSON, or one built for them.
var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("KELSON"); path != "" {
		return path, nil
	}
	return buildTo("kelson", ".")
})

// example returns the binary of the cnat operator.
var example = sync.OnceValues(func() (string, error) {
	return buildTo("cnat", "../../examples/cnat/cmd")
})

// kubectlBinary returns a link to the binary named kubectl, which runs the linked-in upstream
// kubectl.
var kubectlBinary = sync.OnceValues(func() (string, error) {
	kelson, err := binary()
	if err != nil {
		return "", err
	}
	if kelson, err = filepath.Abs(kelson); err != nil {
		return "", err
	}
	path := filepath.Join(scratch, "kubectl")
	return path, os.Symlink(kelson, path)
})

// webserver is a small HTTP server that tests copy into pods.
var webserver = sync.OnceValues(func() (string, error) {
	return buildTo("webserver", "testdata/webserver")
})

var scratch string // binaries that tests built

// goFlags are a part of GOFLAGS: no tables of debuggers, which take long to write, and no vet in go
// test, which analyzes all dependencies first; scripts call go vet for each kind of project.
const goFlags = "'-ldflags=-s -w' -vet=off"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "splice" { // called by the script of a guide
		os.Exit(spliceFile(os.Args[2]))
	}
	// Programs without symbol tables and debug information are linked in less time.
	os.Setenv("GOFLAGS", strings.TrimSpace(os.Getenv("GOFLAGS")+" "+goFlags))
	var err error
	if scratch, err = os.MkdirTemp("", "kelson-test-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

func buildTo(name, dir string) (string, error) {
	path := filepath.Join(scratch, name)
	cmd := exec.Command("go", "build", "-o", path, ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0") // pods may have no libc
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", errors.New(string(output))
	}
	return path, nil
}

func built(t *testing.T, what func() (string, error)) string {
	t.Helper()
	path, err := what()
	require.NoError(t, err)
	return path
}

// outcome is the result of a command.
type outcome struct {
	code           int
	stdout, stderr string
}

// command runs a program until it exits, for at most five minutes.
func command(t *testing.T, env []string, name string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s %v: %v", name, args, err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// server is a running `kelson serve`.
type server struct {
	cmd             *exec.Cmd
	url, kubeconfig string
	stderr          *bytes.Buffer
	done            chan struct{}
}

var readyLine = regexp.MustCompile(`^kelson serves Kubernetes v\S+ at (https://\S+), kubeconfig (\S+), ready in \S+$`)

// startServer starts a server and waits for its first line. The server is killed at the end of the
// test.
func startServer(t *testing.T, args ...string) *server {
	t.Helper()
	return startCommand(t, "serve", args...)
}

// startCommand starts a server by a command other than kelson serve.
func startCommand(t *testing.T, name string, args ...string) *server {
	t.Helper()
	s := &server{stderr: &bytes.Buffer{}, done: make(chan struct{})}
	s.cmd = exec.Command(built(t, binary), append([]string{name, "--secure-port=0"}, args...)...)
	// the test removes the files that a killed server leaves behind
	s.cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	s.cmd.Stderr = s.stderr
	stdout, err := s.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	lines := bufio.NewScanner(stdout)
	lines.Scan()
	match := readyLine.FindStringSubmatch(lines.Text())
	go func() {
		for lines.Scan() {
		}
		s.cmd.Wait()
		close(s.done)
	}()
	t.Cleanup(func() { s.stop(syscall.SIGKILL) })
	if match == nil {
		<-s.done
		t.Fatalf("first line %q\n%s", lines.Text(), s.stderr)
	}
	s.url, s.kubeconfig = match[1], match[2]
	return s
}

// stop sends a signal, waits until the server exits and returns the exit code.
func (s *server) stop(signal syscall.Signal) int {
	_ = s.cmd.Process.Signal(signal)
	<-s.done
	return s.cmd.ProcessState.ExitCode()
}

// output collects the output of a process. It is safe for concurrent use.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func wantContains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", what, part, text)
		}
	}
}

// wrongCode returns the exit code that belongs to a message: that of wrong command lines, or 1.
func wrongCode(message string) int {
	if strings.HasPrefix(message, "required flag(s)") || strings.Contains(message, " arg(s)") {
		return 2
	}
	return 1
}
