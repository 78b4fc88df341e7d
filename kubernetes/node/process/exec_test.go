//go:build unix

package process

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	utilexec "k8s.io/utils/exec"

	"kelson.dev/kubernetes/node"
)

// A command in a container has its environment, streams and terminal, and returns the exit code. It
// ends when its client disconnects and when the container ends.
func TestExec(t *testing.T) {
	spec := shell("sleep 300")
	spec.Env = []corev1.EnvVar{{Name: "GREETING", Value: "hello"}}
	c := start1(t, spec)
	exec := func(in string, tty bool, command ...string) (out, errs string, err error) {
		var stdout, stderr strings.Builder
		err = c.(node.Executor).Exec(t.Context(), command,
			node.Streams{Stdin: strings.NewReader(in), Stdout: &stdout, Stderr: &stderr, TTY: tty})
		return stdout.String(), stderr.String(), err
	}
	if out, errs, err := exec("", false, "sh", "-c", "echo $GREETING; echo wrong >&2; touch here"); out != "hello\n" ||
		errs != "wrong\n" || err != nil {
		t.Errorf("%q %q %v", out, errs, err)
	}
	if out, _, err := exec("typed", false, "sh", "-c", "cat; ls"); out != "typedhere\n" || err != nil {
		t.Errorf("%q %v", out, err)
	}
	if out, _, err := exec("", true, "sh", "-c", "test -t 0 && echo terminal"); out != "terminal\r\n" || err != nil {
		t.Errorf("%q %v", out, err)
	}
	var exit utilexec.ExitError
	if _, _, err := exec("", false, "sh", "-c", "exit 7"); !errors.As(err, &exit) || exit.ExitStatus() != 7 {
		t.Errorf("%v", err)
	}
	if _, _, err := exec("", false, "no-such-command"); err == nil ||
		!strings.Contains(err.Error(), "executable file not found in $PATH") {
		t.Errorf("%v", err)
	}
	if _, _, err := exec("", false); err == nil {
		t.Error("want an error for an empty command")
	}
	// A command ends when its client disconnects and when its container ends.
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	go func() {
		io.ReadFull(reader, make([]byte, len("begun\n")))
		cancel()
		io.Copy(io.Discard, reader)
	}()
	if err := c.(node.Executor).Exec(ctx, []string{"sh", "-c", "echo begun; sleep 300"},
		node.Streams{Stdout: writer}); !errors.As(err, &exit) || exit.ExitStatus() != 137 {
		t.Errorf("%v", err)
	}
	reader, writer = io.Pipe()
	go func() {
		io.ReadFull(reader, make([]byte, len("begun\n")))
		c.Stop(0)
		io.Copy(io.Discard, reader)
	}()
	if err := c.(node.Executor).Exec(t.Context(), []string{"sh", "-c", "echo begun; sleep 300"},
		node.Streams{Stdout: writer}); !errors.As(err, &exit) || exit.ExitStatus() != 137 {
		t.Errorf("%v", err)
	}
}

// An attached client writes to the container's standard input and reads its output, which is also
// in the log.
func TestAttach(t *testing.T) {
	spec := shell("while read line; do echo got $line; done")
	spec.Container.Stdin, spec.Container.StdinOnce = true, true
	c := start1(t, spec)
	var out strings.Builder
	if err := c.(node.Attacher).Attach(t.Context(), node.Streams{Stdin: strings.NewReader("one\ntwo\n"), Stdout: &out}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "got one\ngot two\n" || logOf(t, c, corev1.PodLogOptions{}) != out.String() {
		t.Errorf("%q", out.String())
	}
}
