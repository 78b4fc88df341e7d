// Package apitest has a small API server for this module's tests, which must run without a control
// plane: an http.RoundTripper that implements the wire format, with objects in memory.
//
// It supports the verbs, versions, selectors, pages, watches with bookmarks and initial events,
// finalizers, generations and the status subresource, as the API's documentation describes them. It
// has no validation, defaulting, admission or conversion; its server-side apply is a merge. It
// records writes and injects faults: requests can be intercepted, and watches delayed, cut and
// expired.
//
//	server := apitest.New()
//	c, err := client.New(client.Config{REST: server.REST()})
//
// It starts only one goroutine per request, so it runs inside synctest bubbles.
package apitest

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Kind is a kind that the server serves.
type Kind struct {
	schema.GroupVersionKind
	Plural  string
	Cluster bool // cluster-scoped
}

// NewKind returns a namespaced kind.
func NewKind(group, version, kind, plural string) Kind {
	return Kind{schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, plural, false}
}

func (k Kind) resource() schema.GroupResource {
	return k.GroupVersion().WithResource(k.Plural).GroupResource()
}

// Object is a decoded JSON object.
type Object = map[string]any

// Server is the server. Create it with New.
type Server struct {
	mu        sync.Mutex
	kinds     []Kind
	revision  uint64
	compacted uint64
	uids      int
	objects   map[schema.GroupResource]map[types.NamespacedName]*unstructured.Unstructured
	log       []change // ordered by revision
	changed   chan struct{}
	watches   map[chan struct{}]bool
	requests  []string
	faults    Faults
	opaque    bool
}

type change struct {
	revision uint64
	resource schema.GroupResource
	kind     string // ADDED, MODIFIED, DELETED
	obj, old *unstructured.Unstructured
}

// Faults configures the faults of a Server.
type Faults struct {
	// Intercept handles a request instead of the server if it returns true.
	Intercept func(w http.ResponseWriter, r *http.Request) bool
	// Fail replaces the response to a request if it returns a status code other than 0.
	Fail func(verb, path string) (code int, reason metav1.StatusReason)
	// WatchLag is the delay before each event of a watch.
	WatchLag time.Duration
	// NoStreaming rejects watches with initial events, as servers without that feature do.
	NoStreaming bool
}

// New returns a server with the kinds that most tests need (pods, configmaps, secrets, events and
// leases, and the cluster-scoped nodes and namespaces), and with the given kinds.
func New(kinds ...Kind) *Server {
	core := schema.GroupVersion{Version: "v1"}
	return &Server{
		kinds: append([]Kind{
			{core.WithKind("Pod"), "pods", false},
			{core.WithKind("ConfigMap"), "configmaps", false},
			{core.WithKind("Secret"), "secrets", false},
			{core.WithKind("Event"), "events", false},
			NewKind("coordination.k8s.io", "v1", "Lease", "leases"),
			{core.WithKind("Node"), "nodes", true},
			{core.WithKind("Namespace"), "namespaces", true},
		}, kinds...),
		revision: 100,
		objects:  map[schema.GroupResource]map[types.NamespacedName]*unstructured.Unstructured{},
		changed:  make(chan struct{}),
		watches:  map[chan struct{}]bool{},
	}
}

// REST returns a configuration for clients, whose transport is the server.
func (s *Server) REST() *rest.Config {
	return &rest.Config{Host: "http://test", Transport: s,
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}
}

// SetFaults replaces the faults.
func (s *Server) SetFaults(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// Requests returns the writes that reached the server, such as "PATCH /api/v1/…", except those of
// Events.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Objects returns the objects of a kind by its plural name, ordered by namespace and name.
func (s *Server) Objects(plural string) []Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Object
	for resource, objects := range s.objects {
		if resource.Resource == plural {
			for _, obj := range sorted(objects) {
				found = append(found, obj.DeepCopy().Object)
			}
		}
	}
	return found
}

// AddKind adds a kind.
func (s *Server) AddKind(k Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kinds = append(s.kinds, k)
}

// RemoveKind removes a kind: it deletes its objects and ends its watches.
func (s *Server) RemoveKind(plural string) {
	s.mu.Lock()
	s.kinds = slices.DeleteFunc(s.kinds, func(k Kind) bool { return k.Plural == plural })
	maps.DeleteFunc(s.objects, func(r schema.GroupResource, _ map[types.NamespacedName]*unstructured.Unstructured) bool {
		return r.Resource == plural
	})
	s.mu.Unlock()
	s.CutWatches()
}

// Compact drops the history: watches from earlier versions and earlier continue tokens get 410.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted = s.revision
	s.log = nil
}

// CutWatches ends all open watches.
func (s *Server) CutWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for cut := range s.watches {
		close(cut)
		delete(s.watches, cut)
	}
}

// Watches returns the number of open watches.
func (s *Server) Watches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.watches)
}

// SetOpaque makes resourceVersions texts that cannot be compared. Call it before the first write.
func (s *Server) SetOpaque() { s.opaque = true }

// SetRevision deletes all objects and continues from revision, like a server that lost its storage.
func (s *Server) SetRevision(revision uint64) {
	s.CutWatches()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision, s.compacted, s.log = revision, 0, nil
	clear(s.objects)
}

// version returns the resourceVersion of a revision: a number, unless the server is opaque.
func (s *Server) version(revision uint64) string {
	if s.opaque {
		return "v" + strconv.FormatUint(revision*2654435761%1_000_003, 36) + "." + strconv.FormatUint(revision, 36)
	}
	return strconv.FormatUint(revision, 10)
}

func (s *Server) revisionOf(version string) uint64 {
	base := 10
	if _, after, ok := strings.Cut(version, "."); ok {
		version, base = after, 36
	}
	revision, _ := strconv.ParseUint(version, base, 64)
	return revision
}

func keyOf(obj *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// sorted returns objects ordered by namespace and name.
func sorted(objects map[types.NamespacedName]*unstructured.Unstructured) []*unstructured.Unstructured {
	return slices.SortedFunc(maps.Values(objects), func(a, b *unstructured.Unstructured) int {
		return strings.Compare(keyOf(a).String(), keyOf(b).String())
	})
}

// RoundTrip serves a request. As net/http does, it buffers the body of a response until the handler
// flushes it or ends: only watches stream. As with a network, closing the body ends the request.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(r.Context())
	w := &response{ctx: ctx, header: http.Header{}, code: http.StatusOK, started: make(chan io.ReadCloser, 1)}
	served := r.WithContext(ctx)
	if served.Body == nil {
		served.Body = http.NoBody
	}
	go func() {
		s.ServeHTTP(w, served)
		_ = served.Body.Close()
		w.end()
	}()
	select {
	case content := <-w.started:
		return &http.Response{
			StatusCode: w.code, Status: strconv.Itoa(w.code) + " " + http.StatusText(w.code), Header: w.header,
			Body: &body{content, cancel}, ContentLength: -1, Request: r,
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}, nil
	case <-ctx.Done():
		cancel()
		return nil, ctx.Err()
	}
}

// A body is the body of a response as the client reads it.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc // ends the request
}

func (b *body) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

// A response is a response as the server writes it.
type response struct {
	ctx     context.Context // of the request
	header  http.Header
	code    int
	buffer  bytes.Buffer
	stream  *io.PipeWriter     // set by the first Flush
	started chan io.ReadCloser // receives the body once; header and code do not change after it
}

func (w *response) Header() http.Header  { return w.header }
func (w *response) WriteHeader(code int) { w.code = code }

func (w *response) Write(b []byte) (int, error) {
	if w.stream != nil {
		return w.stream.Write(b)
	}
	return w.buffer.Write(b)
}

func (w *response) Flush() {
	if w.stream != nil {
		return
	}
	reader, writer := io.Pipe()
	context.AfterFunc(w.ctx, func() { _ = reader.CloseWithError(w.ctx.Err()) })
	w.stream = writer
	w.started <- reader
	if w.buffer.Len() > 0 {
		_, _ = w.buffer.WriteTo(writer)
	}
}

// end sends what is buffered, or ends the stream.
func (w *response) end() {
	if w.stream != nil {
		_ = w.stream.Close()
		return
	}
	w.started <- io.NopCloser(&w.buffer)
}
