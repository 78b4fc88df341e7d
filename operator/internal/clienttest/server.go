// Package clienttest has a small API server for tests of this library's lower layers, which must
// run without a control plane: an http.RoundTripper that implements the wire format, with objects
// in memory.
//
// It supports the verbs, versions, selectors, pages, watches with bookmarks and initial events,
// finalizers and the status subresource, as the API's documentation describes them. It has no
// validation, defaulting, admission or conversion; its server-side apply is a merge. Its purpose is
// to inject faults: requests can be intercepted, and watches delayed, cut and expired.
//
//	server := clienttest.New()
//	c, err := client.New(client.Config{REST: server.RESTConfig()})
//
// It starts only one goroutine per request, so it runs inside synctest bubbles.
package clienttest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Kind is a kind that the server serves.
type Kind struct {
	schema.GroupVersionKind
	Resource   string
	Namespaced bool
}

// core is the group of the kinds that every server serves.
var core = schema.GroupVersion{Version: "v1"}

// Server is the server. Create it with New.
type Server struct {
	mu        sync.Mutex
	kinds     []Kind
	revision  uint64
	compacted uint64
	uids      int
	objects   map[string]map[types.NamespacedName]*unstructured.Unstructured // by resource
	log       []change
	changed   chan struct{}
	watches   map[chan struct{}]bool
	faults    Faults
	opaque    bool
}

type change struct {
	revision uint64
	resource string
	kind     string // ADDED, MODIFIED, DELETED
	obj, old *unstructured.Unstructured
}

// Faults configures the faults of a Server.
type Faults struct {
	// Intercept handles a request instead of the server if it returns true.
	Intercept func(w http.ResponseWriter, r *http.Request) bool
	// WatchLag is the delay before each event of a watch.
	WatchLag time.Duration
	// NoStreaming rejects watches with initial events, as servers without that feature do.
	NoStreaming bool
}

// New returns a server with pods, configmaps, secrets (namespaced), nodes and namespaces, and with
// the given kinds.
func New(kinds ...Kind) *Server {
	return &Server{
		kinds: append([]Kind{
			{core.WithKind("Pod"), "pods", true},
			{core.WithKind("ConfigMap"), "configmaps", true},
			{core.WithKind("Secret"), "secrets", true},
			{core.WithKind("Node"), "nodes", false},
			{core.WithKind("Namespace"), "namespaces", false},
		}, kinds...),
		revision: 100,
		objects:  map[string]map[types.NamespacedName]*unstructured.Unstructured{},
		changed:  make(chan struct{}),
		watches:  map[chan struct{}]bool{},
	}
}

// RESTConfig returns a configuration whose transport is the server.
func (s *Server) RESTConfig() *rest.Config {
	return &rest.Config{Host: "http://test", Transport: s}
}

// SetFaults replaces the faults.
func (s *Server) SetFaults(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// AddKind adds a kind.
func (s *Server) AddKind(k Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kinds = append(s.kinds, k)
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

// RoundTrip serves a request. The response streams: it returns as soon as the headers are written.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	reader, writer := io.Pipe()
	w := &response{header: http.Header{}, body: writer, started: make(chan int, 1)}
	go func() {
		s.ServeHTTP(w, r)
		w.WriteHeader(http.StatusOK)
		_ = writer.Close()
	}()
	select {
	case code := <-w.started:
		return &http.Response{
			StatusCode: code, Status: http.StatusText(code), Header: w.header, Body: reader, ContentLength: -1,
			Request: r,
			Proto:   "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		}, nil
	case <-r.Context().Done():
		_ = reader.Close()
		return nil, r.Context().Err()
	}
}

type response struct {
	header  http.Header
	body    *io.PipeWriter
	once    sync.Once
	started chan int
}

func (w *response) Header() http.Header  { return w.header }
func (w *response) WriteHeader(code int) { w.once.Do(func() { w.started <- code }) }
func (w *response) Flush()               { w.WriteHeader(http.StatusOK) }
func (w *response) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// ServeHTTP serves a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	intercept := s.faults.Intercept
	s.mu.Unlock()
	if intercept != nil && intercept(w, r) {
		return
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if s.discovery(w, parts) {
		return
	}
	call, ok := s.parse(parts)
	if !ok {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
		return
	}
	call.w, call.r = w, r
	if err := call.parseSelectors(); err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") == "true":
		call.watch()
	case r.Method == http.MethodGet && call.name == "":
		call.list()
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		call.single()
	}
}

// A call is one parsed request.
type call struct {
	*Server
	kind         Kind
	key          types.NamespacedName
	namespace    string
	name, sub    string
	labels       labels.Selector
	fields       fields.Selector
	w            http.ResponseWriter
	r            *http.Request
	metadataOnly bool
}

func (s *Server) parse(parts []string) (*call, bool) {
	var gv schema.GroupVersion
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		gv.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		gv.Group, gv.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return nil, false
	}
	c := &call{Server: s}
	if len(parts) >= 3 && parts[0] == "namespaces" {
		c.namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 1 {
		c.name = parts[1]
	}
	if len(parts) > 2 {
		c.sub = parts[2]
	}
	c.key = types.NamespacedName{Namespace: c.namespace, Name: c.name}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.kinds {
		if k.GroupVersion() == gv && k.Resource == parts[0] {
			c.kind = k
			return c, true
		}
	}
	return nil, false
}

func (c *call) parseSelectors() (err error) {
	q := c.r.URL.Query()
	c.metadataOnly = strings.Contains(c.r.Header.Get("Accept"), "as=PartialObjectMetadata")
	if c.labels, err = labels.Parse(q.Get("labelSelector")); err != nil {
		return err
	}
	c.fields, err = fields.ParseSelector(q.Get("fieldSelector"))
	return err
}

func (c *call) matches(obj *unstructured.Unstructured) bool {
	if obj == nil || c.namespace != "" && obj.GetNamespace() != c.namespace ||
		!c.labels.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	for _, r := range c.fields.Requirements() {
		value, _, _ := unstructured.NestedString(obj.Object, strings.Split(r.Field, ".")...)
		if (value == r.Value) == (r.Operator == "!=") {
			return false
		}
	}
	return true
}

func (s *Server) discovery(w http.ResponseWriter, parts []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	groups := map[string][]metav1.APIResource{}
	for _, k := range s.kinds {
		groups[k.GroupVersion().String()] = append(groups[k.GroupVersion().String()], metav1.APIResource{
			Name: k.Resource, Kind: k.Kind, Namespaced: k.Namespaced, Verbs: metav1.Verbs{"get", "list", "watch"}})
	}
	switch {
	case len(parts) == 1 && parts[0] == "api":
		reply(w, http.StatusOK, metav1.APIVersions{Versions: []string{"v1"}})
	case len(parts) == 1 && parts[0] == "apis":
		var list metav1.APIGroupList
		for name := range groups {
			gv, _ := schema.ParseGroupVersion(name)
			if gv.Group == "" {
				continue
			}
			version := metav1.GroupVersionForDiscovery{GroupVersion: name, Version: gv.Version}
			list.Groups = append(list.Groups, metav1.APIGroup{
				Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version})
		}
		sort.Slice(list.Groups, func(a, b int) bool { return list.Groups[a].Name < list.Groups[b].Name })
		reply(w, http.StatusOK, list)
	case len(parts) == 2 && parts[0] == "api", len(parts) == 3 && parts[0] == "apis":
		gv := strings.Join(parts[1:], "/")
		if groups[gv] == nil {
			return false
		}
		reply(w, http.StatusOK, metav1.APIResourceList{GroupVersion: gv, APIResources: groups[gv]})
	default:
		return false
	}
	return true
}

func reply(w http.ResponseWriter, code int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(data)
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	reply(w, code, status(code, reason, message))
}

func status(code int, reason metav1.StatusReason, message string) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	}
}

func (c *call) notFound() {
	fail(c.w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("%s %q not found", c.kind.Resource, c.name))
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

// SetOpaque makes resourceVersions texts that cannot be compared. Call it before the first write.
func (s *Server) SetOpaque() { s.opaque = true }

// RemoveKind removes a kind: it deletes its objects and ends its watches.
func (s *Server) RemoveKind(resource string) {
	s.mu.Lock()
	s.kinds = slices.DeleteFunc(s.kinds, func(k Kind) bool { return k.Resource == resource })
	delete(s.objects, resource)
	s.mu.Unlock()
	s.CutWatches()
}

// record records a change, which may be a deletion, and sets the version of obj. The caller holds
// the lock.
func (s *Server) record(kind string, resource string, old, obj *unstructured.Unstructured) {
	s.revision++
	obj.SetResourceVersion(s.version(s.revision))
	key := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if s.objects[resource] == nil {
		s.objects[resource] = map[types.NamespacedName]*unstructured.Unstructured{}
	}
	if kind == "DELETED" {
		delete(s.objects[resource], key)
	} else {
		s.objects[resource][key] = obj
	}
	s.log = append(s.log, change{s.revision, resource, kind, obj, old})
	close(s.changed)
	s.changed = make(chan struct{})
}

// SetRevision deletes all objects and continues from revision, like a server that lost its storage.
func (s *Server) SetRevision(revision uint64) {
	s.CutWatches()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision, s.compacted, s.log = revision, 0, nil
	s.objects = map[string]map[types.NamespacedName]*unstructured.Unstructured{}
}
