package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
)

// requestKey is the context key of the operator's request.
type requestKey struct{}

// request is a request of the operator.
type request struct {
	verb        string // of Kubernetes' request info
	object      Ref    // without a kind
	subresource string
	dryRun      bool
	status      int
	message     string // of a rejection

	mu    sync.Mutex
	hooks []string // webhooks that would have been called
}

func (r *request) calls(hook string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.hooks, hook) {
		r.hooks = append(r.hooks, hook)
	}
}

// version is a write that happened in a run.
type version struct {
	event *store.Event
	by    *request // of the operator; nil for Kubernetes' controllers
	// besides is set if the server wrote the object besides that of the request, such as the
	// ResourceQuota of a new object.
	besides bool
}

// recorder records the requests and writes of a run.
type recorder struct {
	mu       sync.Mutex
	pending  map[store.Key][]pending // writes of the operator that may have been committed
	versions []version
	refused  []*request
	last     time.Time // time of the last change
	read     time.Time // time at which the operator's last short request ended
	inFlight int       // short requests of the operator
	started  bool      // the operator has made a request
	lost     error     // the recorder has missed versions
}

// pending is a write that may not be committed yet.
type pending struct {
	data any // without the resource version; nil for a deletion
	by   *request
}

func newRecorder() *recorder {
	return &recorder{pending: map[store.Key][]pending{}, last: time.Now(), read: time.Now()}
}

// quietResources lists resources that clients write for people and for coordination. They are not
// part of plans.
var quietResources = sets.New("events", "events.events.k8s.io", "leases.coordination.k8s.io")

// commit records a write before it is committed. It is a function for store.Store.Gate.
func (r *recorder) commit(ctx context.Context, ops []store.Op) error {
	by := requestOf(ctx)
	if by == nil {
		return nil
	}
	for _, op := range ops {
		if op.Check || quietResources.Has(op.Key.Resource) {
			continue
		}
		p := pending{by: by}
		if op.Data != nil {
			obj, err := content(op.Data)
			if err != nil {
				continue // the store rejects it
			}
			p.data = obj
		}
		r.mu.Lock()
		r.pending[op.Key] = append(r.pending[op.Key], p)
		r.mu.Unlock()
	}
	return nil
}

// content returns an object without its resource version, in a comparable form.
func content(data []byte) (string, error) {
	var obj map[string]json.RawMessage
	if err := json.Unmarshal(data, &obj); err != nil {
		return "", err
	}
	var meta map[string]json.RawMessage
	if err := json.Unmarshal(obj["metadata"], &meta); err != nil {
		return "", err
	}
	delete(meta, "resourceVersion")
	var err error
	if obj["metadata"], err = json.Marshal(meta); err != nil {
		return "", err
	}
	normal, err := json.Marshal(obj)
	return string(normal), err
}

// follow records the versions after a revision until ctx ends.
func (r *recorder) follow(ctx context.Context, s *store.Store, after uint64) {
	cursor, err := s.Watch("", after)
	for err == nil {
		var events []*store.Event
		if events, _, err = cursor.Next(); err != nil {
			break
		}
		for _, e := range events {
			r.observe(e)
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-cursor.Ready():
		}
	}
	if ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
		r.mu.Lock()
		r.lost = err
		r.mu.Unlock()
	}
}

func (r *recorder) observe(e *store.Event) {
	if quietResources.Has(e.Object.Key.Resource) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = time.Now()
	by := r.writer(e)
	r.versions = append(r.versions, version{e, by, by != nil && e.Object.Key.Resource != by.object.GroupResource()})
}

// writer finds the request that made a write. The caller holds the lock.
func (r *recorder) writer(e *store.Event) *request {
	waiting := r.pending[e.Object.Key]
	if len(waiting) == 0 {
		return nil
	}
	var data any
	if e.Type != store.Deleted {
		text, err := content(e.Object.Data)
		if err != nil {
			return nil
		}
		data = text
	}
	at := slices.IndexFunc(waiting, func(p pending) bool { return p.data == data })
	if at < 0 {
		return nil
	}
	by := waiting[at].by
	r.pending[e.Object.Key] = slices.Delete(waiting, at, at+1)
	return by
}

var requestInfo = apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"),
	GrouplessAPIPrefixes: sets.NewString("api")}

// handler passes the operator's requests to a control plane and records them.
func (r *recorder) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		info, err := requestInfo.NewRequestInfo(hr)
		if err != nil || !info.IsResourceRequest || isReview(info.APIGroup) {
			next.ServeHTTP(w, hr)
			return
		}
		switch {
		case info.Verb == "watch":
			r.watched(w, hr, info, next)
		case resource.LongRunning(info.Verb, info.Subresource):
			next.ServeHTTP(w, hr)
		default:
			r.served(w, hr, info, next)
		}
	})
}

func isReview(group string) bool {
	return group == "authorization.k8s.io" || group == "authentication.k8s.io"
}

// watched forwards a watch.
func (r *recorder) watched(w http.ResponseWriter, hr *http.Request, info *apirequest.RequestInfo, next http.Handler) {
	r.mu.Lock()
	r.started = true
	r.mu.Unlock()
	out := &refusals{ResponseWriter: w}
	next.ServeHTTP(out, hr)
	if out.status == http.StatusForbidden {
		req := describe(info, hr)
		req.status, req.message = out.status, out.message()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.refused = append(r.refused, req)
	}
}

// served forwards a short request.
func (r *recorder) served(w http.ResponseWriter, hr *http.Request, info *apirequest.RequestInfo, next http.Handler) {
	quiet := quietResources.Has(resourceOf(info))
	r.mu.Lock()
	r.started = true
	if !quiet {
		r.inFlight++
	}
	r.mu.Unlock()
	out := &refusals{ResponseWriter: w}
	req := describe(info, hr)
	write := !isRead(info.Verb)
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if quiet {
			return
		}
		r.inFlight--
		r.read = time.Now()
		req.status, req.message = out.status, out.message()
		if req.status >= 400 {
			r.forget(req)
		}
		if notable(req.status, req.verb, req.dryRun) {
			r.refused = append(r.refused, req)
		}
	}()
	if write {
		hr = hr.WithContext(context.WithValue(hr.Context(), requestKey{}, req))
	}
	next.ServeHTTP(out, hr)
}

// notable reports whether the plan lists a rejection. It omits conflicts and errors about existing
// or missing objects, which are part of normal work.
func notable(status int, verb string, dryRun bool) bool {
	switch {
	case status < 400 || status == http.StatusConflict || status == http.StatusTooManyRequests || dryRun:
		return false
	case status == http.StatusForbidden:
		return true
	}
	return !isRead(verb) && status != http.StatusNotFound && status != http.StatusGone
}

// forget drops the writes of a request that failed. The caller holds the lock.
func (r *recorder) forget(req *request) {
	for key, waiting := range r.pending {
		if slices.ContainsFunc(waiting, func(p pending) bool { return p.by == req }) {
			r.pending[key] = slices.DeleteFunc(waiting, func(p pending) bool { return p.by == req })
		}
	}
}

func isRead(verb string) bool { return verb == "get" || verb == "list" || verb == "watch" }

func resourceOf(info *apirequest.RequestInfo) string {
	if info.APIGroup == "" {
		return info.Resource
	}
	return info.Resource + "." + info.APIGroup
}

func describe(info *apirequest.RequestInfo, hr *http.Request) *request {
	return &request{
		verb: info.Verb, subresource: info.Subresource, dryRun: hr.URL.Query().Has("dryRun"),
		object: Ref{Group: info.APIGroup, Resource: info.Resource, Namespace: info.Namespace, Name: info.Name},
	}
}

// hasStarted reports whether the operator has sent a request.
func (r *recorder) hasStarted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.started
}

// idle returns the time since which nothing has changed, and the time since which the operator has
// also sent no request. The second is zero while a request is in flight.
func (r *recorder) idle() (unchanged, idle time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if unchanged = time.Since(r.last); r.inFlight == 0 {
		idle = min(unchanged, time.Since(r.read))
	}
	return unchanged, idle
}

// refusals is an http.ResponseWriter that keeps the status and the message of a rejection.
type refusals struct {
	http.ResponseWriter
	status int
	body   []byte
}

// Unwrap makes http.ResponseController find the wrapped writer.
func (w *refusals) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush implements http.Flusher.
func (w *refusals) Flush() {
	if f, ok := w.ResponseWriter.(http.Flusher); ok {
		f.Flush()
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *refusals) WriteHeader(status int) {
	if w.status == 0 || w.status < 200 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// maxMessage is the maximum number of bytes of a response that are kept.
const maxMessage = 16 << 10

// Write implements http.ResponseWriter.
func (w *refusals) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	if w.status >= 400 && len(w.body) < maxMessage {
		w.body = append(w.body, p[:min(len(p), maxMessage-len(w.body))]...)
	}
	return w.ResponseWriter.Write(p)
}

// message returns the message of the Status in the response, or "" if the request succeeded.
func (w *refusals) message() string {
	if w.status < 400 {
		return ""
	}
	var status metav1.Status
	if raw, ok := bytes.CutPrefix(w.body, []byte("k8s\x00")); ok {
		var unknown runtime.Unknown
		if unknown.Unmarshal(raw) != nil || status.Unmarshal(unknown.Raw) != nil {
			return http.StatusText(w.status)
		}
	} else if json.Unmarshal(w.body, &status) != nil {
		return strings.TrimSpace(http.StatusText(w.status))
	}
	if status.Message == "" {
		return http.StatusText(w.status)
	}
	return status.Message
}

func decode(data []byte) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	return obj, obj.UnmarshalJSON(data)
}
