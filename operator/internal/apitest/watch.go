package apitest

import (
	"encoding/json"
	"net/http"
	"sort"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A watch is a call that streams events.
type watch struct {
	*call
	w       http.ResponseWriter
	initial []*unstructured.Unstructured // the state at seen
	state   bool                         // whether the watch begins with the initial state
	seen    uint64                       // the events up to this revision are sent
	cut     chan struct{}                // closed to end the watch
}

func (c *call) watch() answer {
	w := &watch{call: c, seen: c.revision, state: c.r.URL.Query().Get("sendInitialEvents") == "true",
		cut: make(chan struct{})}
	switch version := c.r.URL.Query().Get("resourceVersion"); {
	case w.state && c.faults.NoStreaming:
		return fail(apierrors.NewInvalid(metav1.Kind("ListOptions"), "", field.ErrorList{field.Forbidden(
			field.NewPath("sendInitialEvents"),
			"sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")}))
	case w.state:
		w.initial = c.selected()
	case version != "":
		w.seen = c.revisionOf(version)
		if w.seen < c.compacted {
			return fail(apierrors.NewResourceExpired("too old resource version: " + version))
		}
		if w.seen > c.revision {
			err := apierrors.NewTimeoutError("Too large resource version: "+version, 0)
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
			return fail(err)
		}
	}
	c.watches[w.cut] = true
	return answer{watch: w}
}

// stream sends the events, each lag after it happened, until the watch ends.
func (w *watch) stream(to http.ResponseWriter, lag time.Duration) {
	defer func() {
		w.mu.Lock()
		delete(w.watches, w.cut)
		w.mu.Unlock()
	}()
	var end <-chan time.Time
	if seconds, _ := strconv.Atoi(w.r.URL.Query().Get("timeoutSeconds")); seconds > 0 {
		end = time.After(time.Duration(seconds) * time.Second)
	}
	w.w = to
	to.Header().Set("Content-Type", "application/json")
	to.(http.Flusher).Flush()
	for _, obj := range w.initial {
		if !w.send("ADDED", w.render(obj)) {
			return
		}
	}
	if w.state && !w.send("BOOKMARK", w.bookmark(true)) {
		return
	}
	for {
		pending, changed, expired := w.pending()
		if expired {
			w.send("ERROR", fail(apierrors.NewResourceExpired("too old resource version")).body)
			return
		}
		for _, ch := range pending {
			if !w.wait(lag) {
				return
			}
			if kind, obj := w.event(ch); obj != nil && !w.send(kind, w.render(obj)) {
				return
			}
		}
		select {
		case <-changed:
		case <-time.After(time.Minute):
			if w.r.URL.Query().Get("allowWatchBookmarks") == "true" && !w.send("BOOKMARK", w.bookmark(false)) {
				return
			}
		case <-end:
			return
		case <-w.cut:
			return
		case <-w.r.Context().Done():
			return
		}
	}
}

// pending returns the changes since the last call, and a channel that the next change closes.
func (w *watch) pending() (changes []change, changed <-chan struct{}, expired bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen < w.compacted {
		return nil, nil, true
	}
	first := sort.Search(len(w.log), func(n int) bool { return w.log[n].revision > w.seen })
	for _, ch := range w.log[first:] {
		if ch.resource == w.kind.resource() {
			changes = append(changes, ch)
		}
	}
	w.seen = w.revision
	return changes, w.changed, false
}

// wait waits for lag, and reports whether the watch continues.
func (w *watch) wait(lag time.Duration) bool {
	if lag == 0 {
		return true
	}
	select {
	case <-time.After(lag):
		return true
	case <-w.cut:
	case <-w.r.Context().Done():
	}
	return false
}

// event returns the event of a change in a watch with selectors, or none if no selected object is
// involved.
func (w *watch) event(ch change) (string, *unstructured.Unstructured) {
	before, after := w.matches(ch.old), ch.kind != "DELETED" && w.matches(ch.obj)
	switch {
	case before && after:
		return "MODIFIED", ch.obj
	case after:
		return "ADDED", ch.obj
	case before:
		gone := ch.old.DeepCopy()
		gone.SetResourceVersion(ch.obj.GetResourceVersion())
		return "DELETED", gone
	}
	return "", nil
}

func (w *watch) send(kind string, obj any) bool {
	data, err := json.Marshal(Object{"type": kind, "object": obj})
	if err != nil {
		panic(err)
	}
	_, err = w.w.Write(append(data, '\n'))
	return err == nil
}

func (w *watch) bookmark(initialEnd bool) Object {
	metadata := Object{"resourceVersion": w.version(w.seen), "creationTimestamp": nil}
	if initialEnd {
		metadata["annotations"] = Object{metav1.InitialEventsAnnotationKey: "true"}
	}
	return Object{"kind": w.kind.Kind, "apiVersion": w.kind.GroupVersion().String(), "metadata": metadata}
}
