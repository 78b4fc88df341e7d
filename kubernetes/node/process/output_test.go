//go:build unix

package process

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/kubernetes/node"
)

// pausing is a client that takes no output until resume is closed. It closes reached with the first
// output.
type pausing struct {
	reached, resume chan struct{}
	taken           strings.Builder
}

func newPausing() *pausing {
	return &pausing{reached: make(chan struct{}), resume: make(chan struct{})}
}

func (p *pausing) Write(b []byte) (int, error) {
	if p.taken.Len() == 0 {
		close(p.reached)
		<-p.resume
	}
	return p.taken.Write(b)
}

// lines is the output of printLines: more than the client has taken when it pauses, and less than
// fits into a pipe.
var lines = strings.Repeat("0123456789abcde\n", 3<<10)

const printLines = "i=0; while [ $i -lt 3072 ]; do echo 0123456789abcde; i=$((i+1)); done"

// A client that pauses when a command ends gets all its output.
func TestExecOfPausingClient(t *testing.T) {
	t.Parallel()
	c := start1(t, shell("sleep 300"))
	for _, tty := range []bool{false, true} {
		count := len(lines)
		if tty {
			count = 2000 // a terminal holds less
		}
		client := newPausing()
		go func() {
			<-client.reached
			// This is longer than Exec waits for other processes that have the output open.
			time.Sleep(drainTimeout + drainTimeout/2)
			close(client.resume)
		}()
		script := fmt.Sprintf("(%s) | head -c %d", printLines, count)
		if err := c.(node.Executor).Exec(t.Context(), []string{"sh", "-c", script},
			node.Streams{Stdout: client, TTY: tty}); err != nil {
			t.Errorf("tty %t: %v", tty, err)
		}
		if got := strings.ReplaceAll(client.taken.String(), "\r", ""); got != lines[:count] {
			t.Errorf("tty %t: the client got %d of %d bytes", tty, len(got), count)
		}
	}
}

// Both outputs of a command go to one writer in order.
func TestExecToOneWriter(t *testing.T) {
	c := start1(t, shell("sleep 300"))
	var out strings.Builder
	script := "for i in 1 2 3 4 5; do echo $i; echo $i >&2; done"
	if err := c.(node.Executor).Exec(t.Context(), []string{"sh", "-c", script},
		node.Streams{Stdout: &out, Stderr: &out}); err != nil {
		t.Fatal(err)
	}
	if want := "1\n1\n2\n2\n3\n3\n4\n4\n5\n5\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// An attached client that takes no output delays neither the container's end nor its log nor other
// clients, and gets all output when it continues.
func TestAttachOfPausingClient(t *testing.T) {
	spec := shell("read begin; " + printLines)
	spec.Container.Stdin = true
	c := start1(t, spec)
	attach := func(s node.Streams) <-chan error {
		result := make(chan error, 1)
		go func() { result <- c.(node.Attacher).Attach(t.Context(), s) }()
		return result
	}
	var all strings.Builder
	slow, quick := newPausing(), attach(node.Streams{Stdout: &all})
	// The output begins after the input, which this client sends when it is attached.
	in, begin := io.Pipe()
	first := attach(node.Streams{Stdout: slow, Stdin: in})
	if _, err := begin.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	<-slow.reached
	<-c.Done()
	if got := logOf(t, c, corev1.PodLogOptions{}); got != lines {
		t.Errorf("the log has %d of %d bytes", len(got), len(lines))
	}
	if err := <-quick; err != nil || !strings.HasSuffix(lines, all.String()) {
		t.Errorf("the other client got %d of %d bytes: %v", all.Len(), len(lines), err)
	}
	close(slow.resume)
	if err := <-first; err != nil || slow.taken.String() != lines {
		t.Errorf("the client got %d of %d bytes: %v", slow.taken.Len(), len(lines), err)
	}
}

// An attached client that can't be written to is detached while the container runs.
func TestAttachOfVanishedClient(t *testing.T) {
	spec := shell("read begin; echo begun; sleep 300")
	spec.Container.Stdin = true
	c := start1(t, spec)
	gone, client := io.Pipe()
	gone.Close()
	if err := c.(node.Attacher).Attach(t.Context(), node.Streams{Stdout: client, Stdin: strings.NewReader("\n")}); err != io.ErrClosedPipe {
		t.Errorf("got %v", err)
	}
}

// A container waits for an attached client that takes no output for a limited time, and not at all
// for the rest of its output.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o outputs
		begin := time.Now()
		attach := func() (*follower, *io.PipeReader) {
			reader, writer := io.Pipe()
			return o.attach(node.Streams{Stdout: writer}), reader
		}
		out := o.tee(io.Discard, func(s *node.Streams) io.Writer { return s.Stdout })
		write := func() time.Duration {
			for range 4 {
				if _, err := out.Write(make([]byte, maxPending/2)); err != nil {
					t.Error(err)
				}
			}
			return time.Since(begin)
		}
		stopped, reader := attach()
		if took := write(); took != patience {
			t.Errorf("the container waited %s for the client, want %s", took, patience)
		}
		if took := write(); took != patience {
			t.Errorf("the container waited %s more for the detached client", took-patience)
		}
		reader.Close() // as its connection ends
		<-stopped.done
		if err := stopped.failure(); err == nil || !strings.Contains(err.Error(), "has taken no output for 10s") {
			t.Errorf("the client got %v", err)
		}
		late, reader := attach()
		o.end()
		if took := write(); took != patience {
			t.Errorf("the container waited %s at its end", took-patience)
		}
		late.complete()
		got := make(chan int)
		go func() {
			all, _ := io.ReadAll(io.LimitReader(reader, 2*maxPending))
			got <- len(all)
		}()
		if n := <-got; n != 2*maxPending {
			t.Errorf("the client got %d bytes, want %d", n, 2*maxPending)
		}
		<-late.done
		if err := late.failure(); err != nil {
			t.Error(err)
		}
	})
}
