// Package apitest is a small in-memory API server for this module's tests. It works in a
// testing/synctest bubble and records writes. It supports the verbs that the library uses, a global
// resourceVersion, optimistic locking, finalizers, generations and the status subresource, but not
// defaulting, validation or field ownership (an apply is a merge).
package apitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
)

// Kind is a kind that the server serves.
type Kind struct {
	Group, Version, Kind, Plural string
	Cluster                      bool // cluster-scoped
}

// Pods, ConfigMaps, Events and Nodes are kinds of the core group.
var (
	Pods       = Kind{Version: "v1", Kind: "Pod", Plural: "pods"}
	ConfigMaps = Kind{Version: "v1", Kind: "ConfigMap", Plural: "configmaps"}
	Events     = Kind{Version: "v1", Kind: "Event", Plural: "events"}
	Nodes      = Kind{Version: "v1", Kind: "Node", Plural: "nodes", Cluster: true}
)

// Object is a decoded JSON object.
type Object = map[string]any

// Server is the API server. Create it with New.
type Server struct {
	// Fault, if not nil, is called before each request, and replaces the response if it returns a
	// status code other than 0.
	Fault func(verb, path string) (code int, reason metav1.StatusReason)

	mu       sync.Mutex
	kinds    []Kind
	objects  map[string]Object // by path
	version  int
	log      []event
	changed  chan struct{} // closed and replaced on each change
	requests []string
}

type event struct {
	version    int
	typ        string
	collection string // path prefix of all objects of the kind
	obj        Object
}

// New returns a server.
func New(kinds ...Kind) *Server {
	return &Server{kinds: kinds, objects: map[string]Object{}, changed: make(chan struct{})}
}

// REST returns a configuration for clients of the server.
func (s *Server) REST() *rest.Config {
	return &rest.Config{Host: "http://apitest", Transport: s,
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// Requests returns the writes received, such as "PATCH /api/v1/…", except those of Events.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Objects returns the objects of a kind by its plural name, ordered by path.
func (s *Server) Objects(plural string) []Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Object
	for _, p := range slices.Sorted(maps.Keys(s.objects)) {
		if parts := strings.Split(p, "/"); parts[len(parts)-2] == plural {
			found = append(found, clone(s.objects[p]))
		}
	}
	return found
}

// RoundTrip handles a request. A watch continues until its context ends or its body is closed.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		_ = r.Body.Close()
	}
	if s.Fault != nil {
		if code, reason := s.Fault(r.Method, r.URL.Path); code != 0 {
			return answer(r, code, status(code, reason, "injected")), nil
		}
	}
	if r.URL.Query().Get("watch") == "true" {
		return s.watch(r), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	code, obj := s.serve(r, body)
	return answer(r, code, obj), nil
}

func (s *Server) serve(r *http.Request, body []byte) (int, any) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(parts) <= 3 && (parts[0] == "apis" && len(parts) == 3 || parts[0] == "api" && len(parts) == 2) {
		return s.discovery(strings.TrimPrefix(strings.Join(parts[1:], "/"), "/"))
	}
	t, ok := s.target(r.URL.Path)
	if !ok {
		return notFound(r.URL.Path)
	}
	if r.Method != http.MethodGet && t.kind.Plural != "events" {
		s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	}
	if t.name == "" {
		t.selector = selectorOf(r)
		switch r.Method {
		case http.MethodGet:
			return http.StatusOK, s.list(t)
		case http.MethodPost:
			return s.create(t, decode(body))
		case http.MethodDelete:
			return s.deleteAll(t)
		}
		return http.StatusMethodNotAllowed, status(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
			r.Method)
	}
	old, exists := s.objects[t.path()]
	switch {
	case r.Method == http.MethodPatch && r.Header.Get("Content-Type") == "application/apply-patch+yaml" && !exists:
		return s.create(t, decode(body))
	case !exists:
		return notFound(t.name)
	case r.Method == http.MethodGet:
		return http.StatusOK, old
	case r.Method == http.MethodDelete:
		if len(body) > 0 {
			if code, obj := preconditions(old, decode(body)); code != 0 {
				return code, obj
			}
		}
		return s.delete(t, old)
	case r.Method == http.MethodPut:
		return s.update(t, old, decode(body))
	case r.Method == http.MethodPatch:
		return s.update(t, old, merge(clone(old), decode(body)))
	}
	return http.StatusMethodNotAllowed, status(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed,
		r.Method)
}

func (s *Server) create(t target, obj Object) (int, any) {
	m := metadata(obj)
	if t.name == "" {
		t.name, _ = m["name"].(string)
	}
	if t.name == "" {
		return http.StatusUnprocessableEntity, status(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
			"name: Required value")
	}
	if _, exists := s.objects[t.path()]; exists {
		return http.StatusConflict, status(http.StatusConflict, metav1.StatusReasonAlreadyExists, t.name)
	}
	if !t.kind.Cluster {
		m["namespace"] = t.namespace
	}
	m["name"], m["generation"] = t.name, 1
	m["uid"] = fmt.Sprintf("uid-%d", s.version+1)
	m["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	return http.StatusCreated, s.put(t, "ADDED", obj)
}

func (s *Server) update(t target, old, obj Object) (int, any) {
	was, m := metadata(old), metadata(obj)
	if rv, _ := m["resourceVersion"].(string); rv != "" && rv != was["resourceVersion"] {
		return http.StatusConflict, status(http.StatusConflict, metav1.StatusReasonConflict,
			"the object has been modified")
	}
	changed := clone(obj)
	if t.subresource == "status" {
		changed = clone(old)
		changed["status"] = obj["status"]
	}
	m = metadata(changed)
	for _, f := range []string{"uid", "name", "namespace", "creationTimestamp", "deletionTimestamp", "generation",
		"resourceVersion"} {
		if was[f] == nil {
			delete(m, f)
		} else {
			m[f] = was[f]
		}
	}
	changed = clone(changed)
	if reflect.DeepEqual(changed, old) {
		return http.StatusOK, old
	}
	if !reflect.DeepEqual(changed["spec"], old["spec"]) {
		m = metadata(changed)
		m["generation"] = m["generation"].(float64) + 1
	}
	if finalizers, _ := metadata(changed)["finalizers"].([]any); was["deletionTimestamp"] != nil &&
		len(finalizers) == 0 {
		delete(s.objects, t.path())
		return http.StatusOK, s.record(t, "DELETED", changed)
	}
	return http.StatusOK, s.put(t, "MODIFIED", changed)
}

// preconditions checks the options of a delete against an object, and returns code 0 if they hold.
func preconditions(old, options Object) (int, any) {
	wanted, _ := options["preconditions"].(map[string]any)
	for field, value := range wanted {
		if metadata(old)[field] != value {
			return http.StatusConflict, status(http.StatusConflict, metav1.StatusReasonConflict,
				"the "+field+" in the precondition does not match")
		}
	}
	return 0, nil
}

func (s *Server) delete(t target, old Object) (int, any) {
	obj := clone(old)
	m := metadata(obj)
	if finalizers, _ := m["finalizers"].([]any); len(finalizers) > 0 {
		if m["deletionTimestamp"] != nil {
			return http.StatusOK, old
		}
		m["deletionTimestamp"] = time.Now().UTC().Format(time.RFC3339)
		return http.StatusOK, s.put(t, "MODIFIED", obj)
	}
	delete(s.objects, t.path())
	return http.StatusOK, s.record(t, "DELETED", obj)
}

func (s *Server) deleteAll(t target) (int, any) {
	list := s.list(t)
	for _, item := range list["items"].([]any) {
		one, m := t, metadata(item.(Object))
		one.name, _ = m["name"].(string)
		one.namespace, _ = m["namespace"].(string)
		s.delete(one, item.(Object))
	}
	return http.StatusOK, list
}

func (s *Server) put(t target, typ string, obj Object) Object {
	obj = s.record(t, typ, obj)
	s.objects[t.path()] = obj
	return obj
}

func (s *Server) record(t target, typ string, obj Object) Object {
	s.version++
	metadata(obj)["resourceVersion"] = strconv.Itoa(s.version)
	obj = clone(obj)
	s.log = append(s.log, event{s.version, typ, t.collection(), obj})
	close(s.changed)
	s.changed = make(chan struct{})
	return obj
}

func (s *Server) list(t target) Object {
	items := []any{}
	for _, p := range slices.Sorted(maps.Keys(s.objects)) {
		if strings.HasPrefix(p, t.collection()) && t.holds(s.objects[p]) {
			items = append(items, s.objects[p])
		}
	}
	return Object{
		"apiVersion": t.apiVersion(), "kind": t.kind.Kind + "List", "items": items,
		"metadata": Object{"resourceVersion": strconv.Itoa(s.version)},
	}
}

func (s *Server) watch(r *http.Request) *http.Response {
	t, ok := s.target(r.URL.Path)
	if !ok {
		code, obj := notFound(r.URL.Path)
		return answer(r, code, obj)
	}
	read, write := io.Pipe()
	go func() { _ = write.CloseWithError(s.stream(r, t, write)) }()
	ended := make(chan struct{})
	stop := func() { _ = read.Close(); close(ended) }
	cancel := sync.OnceFunc(stop)
	go func() {
		select {
		case <-r.Context().Done():
			cancel()
		case <-ended:
		}
	}()
	return &http.Response{StatusCode: 200, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Request: r,
		Header:  http.Header{"Content-Type": {"application/json"}}, Body: &closing{read, cancel}, ContentLength: -1}
}

type closing struct {
	io.Reader
	close func()
}

func (c *closing) Close() error { c.close(); return nil }

func (s *Server) stream(r *http.Request, t target, w io.Writer) error {
	enc := json.NewEncoder(w)
	t.selector = selectorOf(r)
	seen := map[string]bool{} // the selected objects, if there is a selector
	after, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		s.mu.Lock()
		list := s.list(t)
		after = s.version
		s.mu.Unlock()
		for _, item := range list["items"].([]any) {
			t.typ(seen, event{typ: "ADDED", obj: item.(Object)})
			if err := enc.Encode(Object{"type": "ADDED", "object": item}); err != nil {
				return err
			}
		}
		err := enc.Encode(Object{"type": "BOOKMARK", "object": Object{"apiVersion": t.apiVersion(), "kind": t.kind.Kind,
			"metadata": Object{"resourceVersion": strconv.Itoa(after),
				"annotations": Object{metav1.InitialEventsAnnotationKey: "true"}}}})
		if err != nil {
			return err
		}
	}
	for {
		s.mu.Lock()
		var events []event
		first := sort.Search(len(s.log), func(i int) bool { return s.log[i].version > after })
		for _, e := range s.log[first:] {
			if e.collection == t.collection() && t.in(e.obj) {
				if e.typ = t.typ(seen, e); e.typ != "" {
					events = append(events, e)
				}
			}
		}
		after = s.version
		changed := s.changed
		s.mu.Unlock()
		for _, e := range events {
			if err := enc.Encode(Object{"type": e.typ, "object": e.obj}); err != nil {
				return err
			}
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
}

func (s *Server) discovery(groupVersion string) (int, any) {
	resources := []any{}
	for _, k := range s.kinds {
		if strings.TrimPrefix(k.Group+"/"+k.Version, "/") == groupVersion {
			resources = append(resources, Object{"name": k.Plural, "singularName": strings.ToLower(k.Kind),
				"kind": k.Kind, "namespaced": !k.Cluster,
				"verbs": []any{"get", "list", "watch", "create", "update", "patch", "delete"}})
		}
	}
	if len(resources) == 0 {
		return notFound(groupVersion)
	}
	return http.StatusOK, Object{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": groupVersion,
		"resources": resources}
}

// target is the object or collection that a path addresses.
type target struct {
	kind                         Kind
	namespace, name, subresource string
	selector                     labels.Selector // for collections; nil for everything
}

// selectorOf returns the selector of a request; nil if it selects everything.
func selectorOf(r *http.Request) labels.Selector {
	text := r.URL.Query().Get("labelSelector")
	if text == "" {
		return nil
	}
	selector, err := labels.Parse(text)
	if err != nil {
		panic(err) // the test is wrong
	}
	return selector
}

func (s *Server) target(path string) (target, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var group string
	if parts[0] == "apis" {
		group, parts = parts[1], parts[1:]
	}
	if len(parts) < 3 {
		return target{}, false
	}
	version, parts := parts[1], parts[2:]
	t := target{}
	if parts[0] == "namespaces" && len(parts) > 2 {
		t.namespace, parts = parts[1], parts[2:]
	}
	for _, k := range s.kinds {
		if k.Group == group && k.Version == version && k.Plural == parts[0] {
			t.kind = k
			parts = append(parts, "", "")
			t.name, t.subresource = parts[1], parts[2]
			return t, true
		}
	}
	return t, false
}

func (t target) apiVersion() string { return strings.TrimPrefix(t.kind.Group+"/"+t.kind.Version, "/") }

// collection returns the path prefix under which the server stores the kind's objects.
func (t target) collection() string { return t.apiVersion() + "/" + t.kind.Plural + "/" }

func (t target) path() string {
	return t.apiVersion() + "/" + t.kind.Plural + "/" + t.namespace + "/" + t.kind.Plural + "/" + t.name
}

func (t target) holds(obj Object) bool { return t.in(obj) && t.selects(obj) }

func (t target) in(obj Object) bool {
	return t.namespace == "" || metadata(obj)["namespace"] == t.namespace
}

func (t target) selects(obj Object) bool {
	if t.selector == nil {
		return true
	}
	set := labels.Set{}
	own, _ := metadata(obj)["labels"].(Object)
	for name, value := range own {
		set[name], _ = value.(string)
	}
	return t.selector.Matches(set)
}

// typ returns the type of an event as seen by a watch of target; empty if the watch does not see
// it.
func (t target) typ(seen map[string]bool, e event) string {
	if t.selector == nil {
		return e.typ
	}
	m := metadata(e.obj)
	name := fmt.Sprint(m["namespace"], "/", m["name"])
	selected := e.typ != "DELETED" && t.selects(e.obj)
	was := seen[name]
	seen[name] = selected
	switch {
	case selected && was:
		return "MODIFIED"
	case selected:
		return "ADDED"
	case was:
		return "DELETED"
	}
	return ""
}

func metadata(obj Object) Object {
	m, _ := obj["metadata"].(Object)
	if m == nil {
		m = Object{}
		obj["metadata"] = m
	}
	return m
}

// merge implements RFC 7386.
func merge(into, patch Object) Object {
	for k, v := range patch {
		fields, isObject := v.(Object)
		switch {
		case v == nil:
			delete(into, k)
		case isObject:
			old, _ := into[k].(Object)
			if old == nil {
				old = Object{}
			}
			into[k] = merge(old, fields)
		default:
			into[k] = v
		}
	}
	return into
}

func decode(data []byte) Object {
	obj := Object{}
	if err := json.Unmarshal(data, &obj); err != nil {
		panic(fmt.Sprintf("apitest: %v in %s", err, data))
	}
	return obj
}

// clone copies a value and normalizes numbers, so that they compare equal.
func clone(obj Object) Object {
	data, err := json.Marshal(obj)
	if err != nil {
		panic(err)
	}
	return decode(data)
}

func notFound(what string) (int, any) {
	return http.StatusNotFound, status(http.StatusNotFound, metav1.StatusReasonNotFound, what+" not found")
}

func status(code int, reason metav1.StatusReason, message string) Object {
	return Object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": string(reason),
		"message": message}
}

func answer(r *http.Request, code int, obj any) *http.Response {
	data, err := json.Marshal(obj)
	if err != nil {
		panic(err)
	}
	rec := httptest.NewRecorder()
	rec.Header().Set("Content-Type", "application/json")
	rec.WriteHeader(code)
	_, _ = io.Copy(rec, bytes.NewReader(data))
	res := rec.Result()
	res.Request = r
	return res
}
