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

	"kelson.dev/apiserver/internal/turn"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
)

// largeWork is the minimum size, in bytes of the request's body and the stored object, of writes
// that are computed in their own goroutine. Kubernetes' libraries ignore the context while they
// decode, merge, track and validate; smaller objects take them milliseconds.
const largeWork = 32 << 10

// weight returns the size of a body as an estimate of work. YAML with aliases can expand to far
// more than its bytes, so it counts as large.
func weight(body []byte, media string) int {
	if (media == resource.MediaYAML || media == string(types.ApplyYAMLPatchType)) && bytes.IndexByte(body, '*') >= 0 {
		return max(len(body), largeWork)
	}
	return len(body)
}

// job is work on a large object in its own goroutine. The request waits for it until the deadline
// and then responds without it. The work cannot be interrupted and continues, but it can no longer
// store anything.
//
// job is the context of its work.
type job struct {
	context.Context // context of the request
	info            *request.RequestInfo
	done            chan struct{}
	err             error // result of the work; read it after done
	panicked        any   // the value with which the work panicked; valid after done

	mu     sync.Mutex // held while the work stores something
	left   bool       // the request has responded without the work
	stored bool       // the work has stored something; the request waits for its end
}

// jobKey is the context key of a job.
type jobKey struct{}

func (j *job) Value(key any) any {
	if key == (jobKey{}) {
		return j
	}
	return j.Context.Value(key)
}

// AddWarning implements [warning.Recorder]. It drops warnings after the response, because only the
// request may then use the response's header.
func (j *job) AddWarning(agent, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.left {
		warning.AddWarning(j.Context, agent, text)
	}
}

// leave ends the wait for the work. It returns false if the work has stored something: the request
// must then wait for its end, which is near.
func (j *job) leave() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.left = !j.stored
	return j.left
}

// bounded computes a write from a body of a given size, detached if it is large.
func bounded[O, R any](s *scope, size int, work func(*scope, []byte, string, O) (R, error), body []byte, media string,
	opts O) (R, error) {
	if size < largeWork { // without a closure
		return work(s, body, media, opts)
	}
	return detached(s, func() (R, error) { return work(s, body, media, opts) })
}

// detached runs large work in its own goroutine. At the request's deadline it returns the context's
// error. The work takes one of the user's places until it ends. work must use s.in.ctx and must not
// use s.out. Callers run small work directly, to save the closure and the goroutine.
func detached[T any](s *scope, work func() (T, error)) (T, error) {
	var result, none T
	if err := s.runDetached(func() (err error) {
		result, err = work()
		return err
	}); err != nil {
		return none, err // result may be written later
	}
	return result, nil
}

func (s *scope) runDetached(work func() error) error {
	ctx := s.in.ctx
	t, leave, err := s.h.workers.enter(ctx, s.on.waits())
	if err != nil {
		return err
	}
	j := &job{Context: turn.Context(ctx, t), info: s.on.info, done: make(chan struct{})}
	s.in.ctx = warning.WithWarningRecorder(j, j)
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
			slog.Error("panic while a write was computed", "resource", j.info.Resource, "namespace", j.info.Namespace,
				"name", j.info.Name, "panic", p, "stack", string(debug.Stack()))
		}
		j.panicked = p
	}()
	j.err = work()
}

// write commits operations, unless their request has already responded without them.
func (h *Handler) write(ctx context.Context, ops ...store.Op) ([]*store.Object, error) {
	objs, err := h.commit(ctx, ops)
	if isExternal(ctx) {
		h.deliveries.add(objs)
	}
	return objs, err
}

func (h *Handler) commit(ctx context.Context, ops []store.Op) ([]*store.Object, error) {
	j, ok := ctx.Value(jobKey{}).(*job)
	if ok { // the job may belong to an outer in-process request
		info, _ := request.RequestInfoFrom(ctx)
		ok = info == j.info
	}
	if !ok {
		return h.store.Commit(ctx, ops...)
	}
	resume := turn.Pause(ctx)
	objs, err := h.commitOf(j, ctx, ops)
	if err != nil { // only a write that may be computed again has much work left
		resume()
	}
	return objs, err
}

func (h *Handler) commitOf(j *job, ctx context.Context, ops []store.Op) ([]*store.Object, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.left {
		return nil, context.DeadlineExceeded
	}
	objs, err := h.store.Commit(ctx, ops...)
	j.stored = j.stored || err == nil
	return objs, err
}
