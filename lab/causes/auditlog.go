package causes

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"kelson.dev/lab/internal/audit"
)

// Log contains the watches and writes of all clients of a cluster, from an audit log. From it,
// [Log.Explain] concludes what probably caused a write of an operator that records no trace. A Log
// may be used by several goroutines. After ReadAuditLog, only Attach changes it.
type Log struct {
	writes  []*LoggedWrite // sorted by Begin, because events may precede the response
	watches []*loggedWatch
	objects map[resourceName]*loggedObject
	kinds   map[string]string // by group resource, where bodies are logged
	end     time.Time
	trace   *Trace // nil: no answers are exact
}

// Client is the sender of a request.
type Client struct {
	User    string `json:"user"`
	Agent   string `json:"userAgent,omitempty"`
	Address string `json:"address,omitempty"`
}

// program is the part of the User-Agent before its version.
func (c Client) program() string {
	program, _, _ := strings.Cut(c.Agent, "/")
	program, _, _ = strings.Cut(program, " ")
	return path.Base(program)
}

// String returns PROGRAM (USER).
func (c Client) String() string {
	if c.program() == "." {
		return c.User
	}
	return fmt.Sprintf("%s (%s)", c.program(), c.User)
}

// isTool reports whether people use the program for single requests, even if it also watches.
func (c Client) isTool() bool {
	switch c.program() {
	case "kubectl", "oc", "k9s", "helm", "kustomize", "curl", "Wget", "Mozilla", "Lens", "Headlamp", "Terraform",
		"HashiCorp", "python-requests", "PostmanRuntime":
		return true
	}
	return false
}

// isKelson reports whether the program is a part of Kelson's own control plane, which reads the
// state without requests.
func (c Client) isKelson() bool { return strings.HasPrefix(c.program(), "kelson") }

// resourceName identifies an object in a log.
type resourceName struct{ resource, namespace, name string }

// LoggedWrite is a successful write in a log.
type LoggedWrite struct {
	AuditID types.UID `json:"auditID"`
	// Begin is the time at which the server received the request, and Time that of the response.
	Begin time.Time `json:"begin"`
	Time  time.Time `json:"time"`
	By    Client    `json:"by"`
	// Verb is that of the request: create, update, patch, apply, delete or deletecollection.
	Verb string `json:"verb"`
	// Resource is the group resource, such as deployments.apps.
	Resource    string `json:"resource"`
	Kind        string `json:"kind,omitempty"` // if bodies are logged
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	// ResourceVersion is that of the result, if bodies are logged.
	ResourceVersion string `json:"resourceVersion,omitempty"`

	body   []byte // of the request, if logged
	labels labels.Set
}

func (w *LoggedWrite) object() resourceName { return resourceName{w.Resource, w.Namespace, w.Name} }

// Object returns the written object. Its Kind is the resource if bodies are not logged.
func (w *LoggedWrite) Object() Object {
	kind := w.Kind
	if kind == "" {
		kind = w.Resource
	}
	return Object{Kind: kind, Namespace: w.Namespace, Name: w.Name}
}

// loggedObject combines all information in a log about an object.
type loggedObject struct {
	uids   []types.UID // several if it was created again, with the same name
	owners []metav1.OwnerReference
}

// loggedWatch is a watch of a client.
type loggedWatch struct {
	by                        Client
	resource, namespace, name string
	selector                  labels.Selector // nil: all
	begin, end                time.Time       // end is zero if the watch is open
}

// ReadAuditLog reads an audit log in JSON, as written with --audit-log-format=json by Kelson or
// kube-apiserver. An incomplete last line is ignored, because the log may still be written.
//
// The level Metadata is enough to find the client of each write. With RequestResponse, owners,
// labels and contents are evidence too, and the names of objects with generated names are known.
func ReadAuditLog(r io.Reader) (*Log, error) {
	l := &Log{objects: map[resourceName]*loggedObject{}, kinds: map[string]string{}}
	watches := map[types.UID]*loggedWatch{}
	in := bufio.NewReader(r)
	for number := 1; ; number++ {
		line, end := in.ReadBytes('\n')
		if end != nil && end != io.EOF {
			return nil, fmt.Errorf("read audit log: %w", end)
		}
		if end == io.EOF && !json.Valid(line) {
			line = nil
		}
		if len(bytes.TrimSpace(line)) > 0 {
			var e auditv1.Event
			if err := json.Unmarshal(line, &e); err != nil {
				return nil, fmt.Errorf("read audit log: line %d: %w", number, err)
			}
			if e.Kind != "Event" || !strings.HasPrefix(e.APIVersion, "audit.k8s.io/") {
				return nil, fmt.Errorf("read audit log: line %d is not an audit event", number)
			}
			l.add(&e, watches)
		}
		if end == io.EOF {
			break
		}
	}
	slices.SortStableFunc(l.writes, func(a, b *LoggedWrite) int { return a.Begin.Compare(b.Begin) })
	for _, w := range l.writes {
		if w.Kind == "" {
			w.Kind = l.kinds[w.Resource]
		}
	}
	return l, nil
}

func (l *Log) add(e *auditv1.Event, watches map[types.UID]*loggedWatch) {
	if at := e.StageTimestamp.Time; at.After(l.end) {
		l.end = at
	}
	ref := e.ObjectRef
	if ref == nil || ref.Resource == "" || e.Stage == auditv1.StageRequestReceived {
		return
	}
	by := Client{User: e.User.Username, Agent: e.UserAgent}
	if e.ImpersonatedUser != nil {
		by.User = e.ImpersonatedUser.Username
	}
	if len(e.SourceIPs) > 0 {
		by.Address = e.SourceIPs[0]
	}
	resource := ref.Resource
	if ref.APIGroup != "" {
		resource += "." + ref.APIGroup
	}
	if e.Verb == "watch" {
		w := watches[e.AuditID]
		if w == nil {
			w = &loggedWatch{by: by, resource: resource, namespace: ref.Namespace, name: ref.Name,
				begin: e.RequestReceivedTimestamp.Time}
			w.readSelectors(e.RequestURI)
			watches[e.AuditID] = w
			l.watches = append(l.watches, w)
		}
		if e.Stage == auditv1.StageResponseComplete {
			w.end = e.StageTimestamp.Time
		}
		return
	}
	var body []byte
	if e.RequestObject != nil {
		body = e.RequestObject.Raw
	}
	if e.Stage != auditv1.StageResponseComplete || e.ResponseStatus == nil || e.ResponseStatus.Code >= 300 ||
		audit.IsDryRun(e.RequestURI, e.Verb, ref.Subresource, body) {
		return
	}
	l.read(e, resource)
	switch e.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
	default:
		return
	}
	if background(resource) {
		return
	}
	w := &LoggedWrite{
		AuditID: e.AuditID, Begin: e.RequestReceivedTimestamp.Time, Time: e.StageTimestamp.Time, By: by, Verb: e.Verb,
		Resource: resource, Namespace: ref.Namespace, Name: ref.Name, Subresource: ref.Subresource, body: body,
	}
	if resource == "namespaces" {
		w.Namespace = ""
	}
	if e.Verb == "patch" && e.ResponseStatus.Code == http.StatusCreated {
		w.Verb = "apply" // only server-side apply creates objects by a patch
	}
	if m := metaOf(e); m != nil {
		w.Name, w.ResourceVersion, w.labels = m.Name, m.ResourceVersion, m.Labels
		w.Kind = l.kinds[resource]
	}
	l.writes = append(l.writes, w)
}

// metaOf returns the metadata in a response; nil if it is not logged or not that of the object.
func metaOf(e *auditv1.Event) *metav1.PartialObjectMetadata {
	if e.ResponseObject == nil || e.ObjectRef.Subresource != "" && e.ObjectRef.Subresource != "status" {
		return nil
	}
	var m metav1.PartialObjectMetadata
	if json.Unmarshal(e.ResponseObject.Raw, &m) != nil || m.Kind == "Status" || m.Name == "" {
		return nil
	}
	return &m
}

// read records the owners and the kind of an object that a response contains.
func (l *Log) read(e *auditv1.Event, resource string) {
	m := metaOf(e)
	if m == nil {
		return
	}
	if !strings.HasPrefix(m.APIVersion, "meta.k8s.io/") { // not only the metadata
		l.kinds[resource] = m.Kind
	}
	namespace := m.Namespace
	o := l.objects[resourceName{resource, namespace, m.Name}]
	if o == nil {
		o = &loggedObject{}
		l.objects[resourceName{resource, namespace, m.Name}] = o
	}
	if m.UID != "" && !slices.Contains(o.uids, m.UID) {
		o.uids = append(o.uids, m.UID)
	}
	if len(m.OwnerReferences) > 0 {
		o.owners = m.OwnerReferences
	}
}

// readSelectors reads the selectors of a watch.
func (w *loggedWatch) readSelectors(uri string) {
	u, err := url.Parse(uri)
	if err != nil {
		return
	}
	if s, err := labels.Parse(u.Query().Get("labelSelector")); err == nil && !s.Empty() {
		w.selector = s
	}
	if s, err := fields.ParseSelector(u.Query().Get("fieldSelector")); err == nil {
		if name, ok := s.RequiresExactMatch("metadata.name"); ok {
			w.name = name
		}
	}
}

// receives reports whether a watch received an event of a write, or began with the state after it.
func (w *loggedWatch) receives(logged *LoggedWrite) bool {
	return w.resource == logged.Resource && (w.namespace == "" || w.namespace == logged.Namespace) &&
		(w.name == "" || w.name == logged.Name) &&
		(w.end.IsZero() || !w.end.Before(logged.Begin)) &&
		(w.selector == nil || logged.labels == nil || w.selector.Matches(logged.labels))
}

// background reports whether clients write a resource for people (Events) or for coordination
// (Leases), or only to get an answer (reviews).
func background(resource string) bool {
	switch resource {
	case "events", "events.events.k8s.io", "leases.coordination.k8s.io":
		return true
	}
	_, group, _ := strings.Cut(resource, ".")
	return group == "authorization.k8s.io" || group == "authentication.k8s.io"
}
