package rest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"kelson.dev/apiserver/metrics"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/store"
)

const (
	// bookmarkEvery is how often a watch with bookmarks gets one while the store changes. An idle
	// server runs no timer, so that weeks of virtual time cost nothing.
	bookmarkEvery = time.Minute
	// defaultWatchTimeout is the default of Config.WatchTimeout.
	defaultWatchTimeout = 30 * time.Minute
	// gatherAt is the minimum size, in bytes, of frames that span several TLS records.
	gatherAt = 4 << 10
)

// watch serves a stream of events from the request's goroutine. It returns an error only while
// nothing was sent.
func (s *scope) watch(opts *metainternalversion.ListOptions, sel *selector) error {
	if err := s.allowed(resource.Watch); err != nil {
		return err
	}
	f, err := wire.NegotiateStream(s.in.req, s.on.allow())
	if err != nil {
		return err
	}
	frames, err := s.out.frames(f)
	if err != nil {
		return err
	}
	revision, err := storage.APIObjectVersioner{}.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return err
	}
	w := &watcher{
		s: s, sel: sel, frames: frames, sending: s.h.metrics.Watch(s.on.res.GVR(s.on.version)),
		done: s.in.req.Context().Done(), bookmarks: opts.AllowWatchBookmarks,
		writing: newWriting(s.out.w, s.in.req, true, time.Now().Add(maxInitial)),
	}
	defer w.close()
	if w.sel.namespace != "" && s.on.namespace == "" {
		w.namespace = w.sel.namespace
	} else {
		w.namespace = s.on.namespace
	}

	timeout := s.h.watchTimeout + rand.N(s.h.watchTimeout)
	if opts.TimeoutSeconds != nil && *opts.TimeoutSeconds != 0 {
		timeout = time.Duration(*opts.TimeoutSeconds) * time.Second
	}
	// The cursor is set before the response begins, so that the watch sees all writes that the
	// client makes after it.
	err = w.begin(opts, revision)
	serve := func() {
		// From here on errors are events.
		if err == nil {
			err = ended(opts, timeout)
		}
		if err == nil && timeout > 0 {
			err = w.initial()
		}
		w.initialized()
		if err == nil && timeout > 0 {
			err = w.run(timeout)
		}
		if err != nil {
			w.fail(err)
		}
	}
	if wsstream.IsWebSocketRequest(s.in.req) {
		if !hijackable(s.out.w) {
			return apierrors.NewInternalError(
				errors.New("unable to start watch - the connection can't become a WebSocket"))
		}
		w.overWebSocket(f, serve)
		return nil
	}
	flusher, ok := s.out.w.(http.Flusher)
	if !ok {
		return apierrors.NewInternalError(fmt.Errorf("unable to start watch - can't get http.Flusher: %T", s.out.w))
	}
	w.flusher = flusher
	s.out.w.Header().Set("Content-Type", f.StreamType())
	s.out.w.WriteHeader(http.StatusOK)
	flusher.Flush()
	serve()
	return nil
}

// ended returns the error of a watch whose timeout is negative, so that it ends at once. Like
// kube-apiserver, it reports the passed deadline only if the watch would have to read the newest
// state.
func ended(opts *metainternalversion.ListOptions, timeout time.Duration) error {
	asList := opts.SendInitialEvents != nil && *opts.SendInitialEvents && opts.AllowWatchBookmarks
	if timeout >= 0 || opts.ResourceVersion != "" && !asList {
		return nil
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
		Message: context.DeadlineExceeded.Error(),
	}}
}

// watcher is one watch. One goroutine uses its state.
type watcher struct {
	s         *scope
	sel       *selector
	namespace string
	frames    *frames
	sending   metrics.Watch
	done      <-chan struct{} // closed when the client disconnects or the server shuts down
	flusher   http.Flusher
	// sends a frame as one WebSocket message; nil: frames are written
	message   func(frame []byte) error
	bookmarks bool
	cursor    *store.Cursor
	snap      *store.Snapshot // the state to send first; nil: none, or sent
	pending   pending
	unflushed bool // something was written since the last flush
	writing   *writing
	// sent is the revision up to which everything was sent.
	sent uint64
}

// close ends the use of the ResponseWriter and releases buffers.
func (w *watcher) close() {
	w.writing.dog.Stop()
	if w.cursor != nil {
		w.cursor.Leave()
	}
	w.pending.release()
}

// initialized releases what only the initial events need.
func (w *watcher) initialized() {
	w.snap = nil
	w.writing.initialized()
}

// begin sets the cursor, and the state to send first if the client requests it.
func (w *watcher) begin(opts *metainternalversion.ListOptions, revision uint64) (err error) {
	switch {
	case opts.SendInitialEvents != nil && *opts.SendInitialEvents:
		if w.snap, err = w.s.newest(opts.ResourceVersion); err != nil {
			return err
		}
		revision = w.snap.Revision()
	case revision == 0: // sendInitialEvents=false and no revision: from now on
		now, err := w.s.newest("")
		if err != nil {
			return err
		}
		revision = now.Revision()
	}
	w.sent = revision
	if revision < w.s.on.res.Since { // no list of this kind has had such a revision
		return w.expired(&store.CompactedError{Floor: w.s.on.res.Since}, revision)
	}
	if w.cursor, err = w.s.h.store.Watch(w.s.on.res.Prefix(), revision); err != nil {
		return w.expired(err, revision)
	}
	if w.snap == nil { // writers wait for the watch from the moment that its client gets the header
		w.cursor.Delivered()
	}
	return nil
}

// initial sends the objects of the first state as if they were just added, and the bookmark after
// them.
func (w *watcher) initial() error {
	if w.snap == nil {
		return nil
	}
	for obj := range w.selected(w.snap) {
		if ok, err := w.sel.matches(obj); err != nil {
			return err
		} else if !ok {
			continue
		}
		if err := w.added(obj); err != nil {
			return err
		}
	}
	if w.bookmarks { // clients without a revision get initial events unasked, and this bookmark
		if err := w.bookmark(true); err != nil {
			return err
		}
	}
	w.cursor.Delivered()
	if w.flush() != nil {
		return errGone
	}
	return nil
}

// added sends an object as if it were just added. Its encoding is shared with other watches; the
// frame around it is not kept.
func (w *watcher) added(obj *store.Object) error {
	if w.message != nil || w.frames.table != nil {
		frame, err := w.frames.object(watch.Added, obj)
		if err != nil {
			return err
		}
		return w.put(frame)
	}
	before, bare, after, err := w.frames.parts(watch.Added, obj)
	if err != nil {
		return err
	}
	return w.put(before, bare, after)
}

// selected yields the objects that the watch may select; the caller must still match them.
func (w *watcher) selected(snap *store.Snapshot) iter.Seq[*store.Object] {
	if w.sel.name == "" || w.namespace == "" && w.s.on.res.Namespaced {
		return snap.Scan(w.s.on.res.Prefix(), w.namespace, store.Key{})
	}
	return func(yield func(*store.Object) bool) {
		if obj := snap.Get(w.s.on.res.Key(w.namespace, w.sel.name)); obj != nil {
			yield(obj)
		}
	}
}

// run sends events until the timeout, the end of the request, or an error. A closed connection is
// not an error. The watch also ends when the definition of its kind changes or is deleted, as in
// kube-apiserver: its client then lists again, and learns how the kind is served now.
func (w *watcher) run(timeout time.Duration) error {
	end := time.NewTimer(timeout)
	defer end.Stop()
	tick := time.NewTimer(bookmarkEvery)
	defer tick.Stop()
	tick.Stop() // until the store is ahead
	pace := pace{crowd: w.s.h.crowds.join(w.s.on.res.Prefix())}
	defer pace.end()
	ahead, due := w.ahead(), false
	name := w.s.on.res.GroupResource()
	retired := w.s.h.registry.Current().Retired(name)
	for {
		events, revision, err := w.cursor.Next()
		if err != nil {
			return w.expired(err, w.sent)
		}
		now, served := w.s.h.registry.Current().ByName(name)
		if served && now.Edition != w.s.on.res.Edition {
			return nil // the events that follow may be stored in another version
		}
		for _, event := range events {
			if err := w.event(event); err != nil {
				return err
			}
		}
		w.sent = max(w.sent, revision)
		if due && len(events) == 0 {
			if err := w.bookmark(false); err != nil {
				return err
			}
			ahead, due = w.ahead(), false
		}
		if err := w.flush(); err != nil {
			return nil
		}
		w.cursor.Delivered()
		if !served && len(events) == 0 {
			return nil // the last events were those of the deletion of all objects
		}
		if len(events) > 0 {
			pace.sent()
			select {
			case <-w.done:
				return nil
			default:
				continue
			}
		}
		select {
		case <-w.cursor.Ready():
			if pace.remaining() > 0 {
				w.cursor.Leave() // writers do not wait for a watch that waits
			}
			if !pace.wait(w.done) {
				return nil
			}
		case <-retired:
		case <-ahead:
			ahead = nil
			tick.Reset(bookmarkEvery)
		case <-tick.C:
			due = true
		case <-end.C:
			if w.bookmarks {
				if err := w.bookmark(false); err != nil {
					return err
				}
				_ = w.flush()
			}
			return nil
		case <-w.done:
			return nil
		}
	}
}

// ahead returns a channel that is closed when the store has a revision of any resource after the
// last one sent, so that a bookmark is useful. It is nil for watches without bookmarks.
func (w *watcher) ahead() <-chan struct{} {
	if !w.bookmarks {
		return nil
	}
	all, err := w.s.h.store.Watch("", w.sent)
	if err != nil { // the log does not reach back that far: it is ahead
		now := make(chan struct{})
		close(now)
		return now
	}
	return all.Ready()
}

// event sends an event as this watch sees it: an update can add an object to a selection or remove
// it.
func (w *watcher) event(e *store.Event) error {
	if w.namespace != "" && e.Object.Key.Namespace != w.namespace {
		return nil
	}
	if w.sel.name != "" && e.Object.Key.Name != w.sel.name {
		return nil
	}
	is, was := e.Type != store.Deleted, e.Prev != nil
	var err error
	if is {
		if is, err = w.sel.matches(e.Object); err != nil {
			return err
		}
	}
	if was {
		if was, err = w.sel.matches(e.Prev); err != nil {
			return err
		}
	}
	var typ watch.EventType
	switch {
	case is && was:
		typ = watch.Modified
	case is:
		typ = watch.Added
	case was:
		typ = watch.Deleted
	default:
		return nil
	}
	frame, err := w.frames.event(typ, e)
	if err != nil {
		return err
	}
	return w.put(frame)
}

// put sends a frame, which may consist of parts. It sends the frame immediately or keeps it to send
// it with others.
func (w *watcher) put(parts ...[]byte) error {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	w.sending.Sent(size)
	if w.message != nil {
		if w.message(parts[0]) != nil {
			return errGone
		}
		return nil
	}
	if w.pending.append(parts...) {
		return nil
	}
	if w.write() != nil {
		return errGone
	}
	for _, part := range parts {
		if w.pending.append(part) {
			continue
		}
		if w.write() != nil || w.writing.write(part) != nil {
			return errGone
		}
		w.unflushed = true
	}
	return nil
}

// write sends the pending frames.
func (w *watcher) write() error {
	p := w.pending.bytes()
	if len(p) == 0 {
		return nil
	}
	err := w.writing.write(p)
	w.pending.release() // an idle watch holds no memory
	w.unflushed = true
	return err
}

// errGone ends a watch whose client has disconnected.
var errGone = errors.New("client gone")

func (w *watcher) flush() error {
	err := w.write()
	if w.unflushed {
		w.unflushed = false
		w.writing.flush(w.flusher)
	}
	return err
}

func (w *watcher) bookmark(initialEnd bool) error {
	frame, err := w.frames.bookmark(w.sent, initialEnd)
	if err != nil {
		return err
	}
	return w.put(frame)
}

// expired returns the error of a watch whose position the log no longer covers.
func (w *watcher) expired(err error, after uint64) error {
	var compacted *store.CompactedError
	switch {
	case errors.As(err, &compacted):
		return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", after, compacted.Floor))
	case errors.Is(err, store.ErrClosed):
		return errGone // the server stops: end the stream without an ERROR event
	}
	return err
}

// fail ends the watch with an ERROR event. A client that accepts lists only, as kube-apiserver
// detects at the first object, gets none.
func (w *watcher) fail(err error) {
	if errors.Is(err, errGone) || errors.Is(err, errNotList) {
		return
	}
	status := wire.Status(err)
	frame, encoding := w.frames.status(status)
	if encoding != nil {
		return
	}
	if w.put(frame) == nil {
		_ = w.flush()
	}
}
