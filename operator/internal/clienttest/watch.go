package clienttest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func (c *call) watch() {
	q := c.r.URL.Query()
	initial := q.Get("sendInitialEvents") == "true"
	c.mu.Lock()
	lag := c.faults.WatchLag
	from := c.revision
	switch version := q.Get("resourceVersion"); {
	case initial && c.faults.NoStreaming:
		c.mu.Unlock()
		fail(c.w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
			"ListOptions.meta.k8s.io \"\" is invalid: "+
				"sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
		return
	case !initial && version != "":
		from = c.revisionOf(version)
		if from < c.compacted {
			c.mu.Unlock()
			fail(c.w, http.StatusGone, metav1.StatusReasonExpired, "too old resource version: "+version)
			return
		}
		if from > c.revision {
			c.mu.Unlock()
			s := status(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "Too large resource version: "+version)
			s.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{
				{Type: metav1.CauseTypeResourceVersionTooLarge}}}
			reply(c.w, http.StatusGatewayTimeout, s)
			return
		}
	}
	var objs []*unstructured.Unstructured
	if initial {
		objs = c.sorted()
	}
	cut := make(chan struct{})
	c.watches[cut] = true
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.watches, cut)
		c.mu.Unlock()
	}()

	var end <-chan time.Time
	if seconds, _ := strconv.Atoi(q.Get("timeoutSeconds")); seconds > 0 {
		timer := time.NewTimer(time.Duration(seconds) * time.Second)
		defer timer.Stop()
		end = timer.C
	}
	c.w.Header().Set("Content-Type", "application/json")
	c.w.(http.Flusher).Flush()
	send := func(kind string, obj any) bool {
		data, err := json.Marshal(map[string]any{"type": kind, "object": obj})
		if err != nil {
			panic(err)
		}
		_, err = c.w.Write(append(data, '\n'))
		return err == nil
	}
	for _, obj := range objs {
		if !send("ADDED", c.render(obj)) {
			return
		}
	}
	if initial && !send("BOOKMARK", c.bookmark(from, true)) {
		return
	}
	seen := from
	for {
		c.mu.Lock()
		var pending []change
		expired := seen < c.compacted
		for _, ch := range c.log {
			if ch.revision > seen && ch.resource == c.kind.Resource {
				pending = append(pending, ch)
			}
		}
		seen = c.revision
		changed := c.changed
		c.mu.Unlock()
		if expired {
			send("ERROR", status(http.StatusGone, metav1.StatusReasonExpired, "too old resource version"))
			return
		}
		for _, ch := range pending {
			select {
			case <-time.After(lag):
			case <-cut:
				return
			case <-c.r.Context().Done():
				return
			}
			if kind, obj := c.seen(ch); obj != nil && !send(kind, c.render(obj)) {
				return
			}
		}
		select {
		case <-changed:
		case <-end:
			return
		case <-cut:
			return
		case <-time.After(time.Minute):
			if q.Get("allowWatchBookmarks") == "true" && !send("BOOKMARK", c.bookmark(seen, false)) {
				return
			}
		case <-c.r.Context().Done():
			return
		}
	}
}

// seen returns the event of a change in a watch with selectors, or none if no selected object is
// involved.
func (c *call) seen(ch change) (string, *unstructured.Unstructured) {
	before, after := c.matches(ch.old), ch.kind != "DELETED" && c.matches(ch.obj)
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

func (c *call) bookmark(version uint64, initialEnd bool) map[string]any {
	metadata := map[string]any{"resourceVersion": c.version(version), "creationTimestamp": nil}
	if initialEnd {
		metadata["annotations"] = map[string]any{metav1.InitialEventsAnnotationKey: "true"}
	}
	return map[string]any{"kind": c.kind.Kind, "apiVersion": c.kind.GroupVersion().String(), "metadata": metadata}
}
