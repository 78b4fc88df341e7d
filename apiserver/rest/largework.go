package rest

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
)

// largeWork is from which size on, in bytes of the request's body and the stored object, a write is computed apart from its request. Kubernetes'
// libraries look at no context while they decode, merge, track and validate, and smaller objects take them milliseconds.
const largeWork = 32 << 10

// weight is the size of a body as far as it says how much work it is. YAML with aliases can stand for far more than its bytes.
func weight(body []byte, media string) int {
	if (media == resource.MediaYAML || media == string(types.ApplyYAMLPatchType)) && bytes.IndexByte(body, '*') >= 0 {
		return max(len(body), largeWork)
	}
	return len(body)
}

// job is work on a large object in a goroutine of its own. Its request waits for it until the deadline, and then answers
// without it: the work goes on, because it can't be interrupted, but stores nothing any more.
//
// job is the context of its work.
type job struct {
	context.Context // of the request
	info            *request.RequestInfo
	done            chan struct{}
	err             error // of the work; read it after done
	panicked        any   // what the work panicked with; read it after done

	mu       sync.Mutex // held while the work stores something
	left     bool       // the request was answered without the work
	stored   bool       // the work has stored something: its request waits for its end
	warnings warning.Recorder
}

// jobKey finds the job of a context.
type jobKey struct{}

func (j *job) Value(key any) any {
	if key == (jobKey{}) {
		return j
	}
	return j.Context.Value(key)
}

// AddWarning implements [warning.Recorder]. Warnings stand in the header of the response, which belongs to the request alone after it was
// answered.
func (j *job) AddWarning(agent, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.left {
		warning.AddWarning(j.Context, agent, text)
	}
}

// leave ends the wait for the work. It is false if the work has stored something: then its end is near and must be waited for.
func (j *job) leave() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.left = !j.stored
	return j.left
}

// apart runs large work. It ends for the request at its deadline, with the context's error, and takes one of the user's places until it
// really ends. work must use s.ctx and must not use s.w. Small work is called without it: its closure and goroutine would cost most writes something.
func apart[T any](s *scope, work func() (T, error)) (T, error) {
	var result, none T
	if err := s.runApart(func() (err error) {
		result, err = work()
		return err
	}); err != nil {
		return none, err // result may be written later
	}
	return result, nil
}

func (s *scope) runApart(work func() error) error {
	ctx := s.ctx
	leave, err := s.workers.enter(ctx)
	if err != nil {
		return err
	}
	j := &job{Context: ctx, info: s.info, done: make(chan struct{})}
	s.ctx = warning.WithWarningRecorder(j, j)
	go func() {
		defer leave()
		j.run(work)
	}()
	select {
	case <-j.done:
	case <-ctx.Done():
		if j.leave() {
			return ctx.Err()
		}
		<-j.done
	}
	if j.panicked != nil {
		panic(j.panicked)
	}
	return j.err
}

func (j *job) run(work func() error) {
	defer close(j.done)
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if err, ok := p.(error); p != http.ErrAbortHandler && !(ok && err.Error() == impossible) {
			slog.Error("panic while a write was computed", "resource", j.info.Resource, "namespace", j.info.Namespace, "name", j.info.Name, "panic", p, "stack", string(debug.Stack()))
		}
		j.panicked = p
	}()
	j.err = work()
}

// write commits operations, unless the request that they belong to was answered already.
func (h *Handler) write(ctx context.Context, ops ...store.Op) ([]*store.Object, error) {
	j, ok := ctx.Value(jobKey{}).(*job)
	if ok { // it may be that of a request during which this one is made, in process
		info, _ := request.RequestInfoFrom(ctx)
		ok = info == j.info
	}
	if !ok {
		return h.store.Commit(ctx, ops...)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.left {
		return nil, context.DeadlineExceeded
	}
	objs, err := h.store.Commit(ctx, ops...)
	j.stored = j.stored || err == nil
	return objs, err
}
