//go:build unix

package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"kelson.dev/kubernetes/node"
)

const (
	// drainTimeout is how long to wait for more output after a process has ended. It matters only
	// if another process keeps the output open.
	drainTimeout = time.Second
	// maxDrained is how much output to read without waiting after drainTimeout. It is the largest
	// size that a process without privileges can give a pipe.
	maxDrained = 1 << 20
)

// source is the reading end of a process's output. One goroutine reads it.
type source struct {
	*os.File
	endedAt atomic.Int64 // when the process ended, in nanoseconds since 1970; 0: it has not
	late    int          // bytes read after drainTimeout
}

func sourcesOf(files []*os.File) []*source {
	all := make([]*source, len(files))
	for i, f := range files {
		all[i] = &source{File: f}
	}
	return all
}

// end makes reads fail when there is no output and the process ended drainTimeout ago. Output that
// was written before is not lost, even if its reader pauses.
func (s *source) end() {
	now := time.Now()
	s.endedAt.Store(now.UnixNano())
	_ = s.SetReadDeadline(now.Add(drainTimeout))
}

// WriteTo hides that of File, so that io.Copy calls Read.
func (s *source) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{s})
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.File.Read(p)
	if !errors.Is(err, os.ErrDeadlineExceeded) || s.endedAt.Load() == 0 || s.late >= maxDrained {
		return n, err
	}
	// After the deadline, File.Read does not even look for output.
	if n = s.readNow(p); n > 0 {
		s.late += n
		return n, nil
	}
	return 0, err
}

// readNow reads without waiting. It returns 0 if there is nothing to read.
func (s *source) readNow(p []byte) (n int) {
	if s.SetReadDeadline(time.Time{}) != nil {
		return 0
	}
	defer func() { _ = s.SetReadDeadline(time.Unix(0, s.endedAt.Load()).Add(drainTimeout)) }()
	conn, err := s.SyscallConn()
	if err != nil {
		return 0
	}
	_ = conn.Read(func(fd uintptr) bool {
		n, _ = syscall.Read(int(fd), p) // the file does not block
		return true                     // don't wait, whatever the result
	})
	return max(n, 0)
}

// finish waits until the output of an ended process has been copied. When ctx ends, it discards
// what was not read yet.
func finish(ctx context.Context, sources []*source, copying *sync.WaitGroup) {
	for _, s := range sources {
		s.end()
	}
	defer context.AfterFunc(ctx, func() {
		for _, s := range sources {
			s.Close()
		}
	})()
	copying.Wait()
}

const (
	// maxPending is how much output waits for an attached client before the container does.
	maxPending = 64 << 10
	// patience is how long the container waits for an attached client that takes no output.
	patience = 10 * time.Second
)

// outputs are the attached clients that receive the container's output. Earlier output is only in
// the log.
type outputs struct {
	mu        sync.Mutex
	followers map[*follower]bool
	ended     bool // the process has ended
}

// follower is an attached client. Its goroutine writes the output to the client, so that a client
// that pauses delays neither the end of the container nor other clients.
type follower struct {
	streams node.Streams
	done    chan struct{} // closed when nothing more is written

	mu      sync.Mutex
	changed sync.Cond
	pending []piece
	size    int   // bytes in pending
	ended   bool  // the process has ended: pending may exceed maxPending
	whole   bool  // no more output follows
	err     error // nothing more is written
}

type piece struct {
	to   io.Writer
	data []byte
}

var errDetached = errors.New("detached")

func (o *outputs) attach(s node.Streams) *follower {
	f := &follower{streams: s, done: make(chan struct{})}
	f.changed.L = &f.mu
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.followers == nil {
		o.followers = map[*follower]bool{}
	}
	o.followers[f], f.ended = true, o.ended
	go f.run()
	return f
}

func (o *outputs) detach(f *follower) {
	o.mu.Lock()
	delete(o.followers, f)
	o.mu.Unlock()
	f.fail(errDetached)
}

// end makes the rest of the output wait for clients without limit, because it ends soon.
func (o *outputs) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	for f := range o.followers {
		f.set(func() { f.ended = true })
	}
}

// tee returns a writer that writes to the log and to the attached clients. It never fails: what the
// log can't store is lost, and clients that take no output are detached.
func (o *outputs) tee(log io.Writer, writerOf func(*node.Streams) io.Writer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		_, _ = log.Write(p)
		o.mu.Lock()
		followers := make([]*follower, 0, len(o.followers))
		for f := range o.followers {
			followers = append(followers, f)
		}
		o.mu.Unlock()
		for _, f := range followers {
			if w := writerOf(&f.streams); w != nil {
				f.add(w, p)
			}
		}
		return len(p), nil
	})
}

// add queues output for the client. It waits until there is room.
func (f *follower) add(w io.Writer, p []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.size >= maxPending && !f.ended && f.err == nil {
		timer := time.AfterFunc(patience, func() {
			f.fail(fmt.Errorf("detached, because the client has taken no output for %s", patience))
		})
		for f.size >= maxPending && !f.ended && f.err == nil {
			f.changed.Wait()
		}
		timer.Stop()
	}
	if f.err == nil {
		f.pending, f.size = append(f.pending, piece{w, bytes.Clone(p)}), f.size+len(p)
		f.changed.Broadcast()
	}
}

// run writes the queued output to the client, until the output is complete or the client fails.
func (f *follower) run() {
	defer close(f.done)
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		for len(f.pending) == 0 && !f.whole && f.err == nil {
			f.changed.Wait()
		}
		if f.err != nil || len(f.pending) == 0 {
			return
		}
		next := f.pending[0]
		f.pending = f.pending[1:]
		f.mu.Unlock()
		_, err := next.to.Write(next.data)
		f.mu.Lock()
		f.size -= len(next.data)
		if err != nil && f.err == nil {
			f.err = err
		}
		f.changed.Broadcast()
	}
}

func (f *follower) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.changed.Broadcast()
}

// complete says that no more output follows.
func (f *follower) complete() { f.set(func() { f.whole = true }) }

func (f *follower) fail(err error) {
	f.set(func() {
		if f.err == nil {
			f.err = err
		}
	})
}

func (f *follower) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
