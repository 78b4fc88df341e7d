package apitest

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A call is one parsed request.
type call struct {
	*Server
	kind         Kind
	key          types.NamespacedName
	sub          string
	labels       labels.Selector
	fields       fields.Selector
	r            *http.Request
	data         []byte // the body
	metadataOnly bool
	dryRun       bool
}

// ServeHTTP serves a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	faults := s.faults
	s.mu.Unlock()
	if faults.Intercept != nil && faults.Intercept(w, r) {
		return
	}
	if faults.Fail != nil {
		if code, reason := faults.Fail(r.Method, r.URL.Path); code != 0 {
			reply(w, code, status(metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: reason,
				Message: "injected"}))
			return
		}
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client left
	}
	a := s.answer(r, data)
	if a.watch == nil {
		reply(w, a.code, a.body)
		return
	}
	a.watch.stream(w, faults.WatchLag)
}

// An answer is a watch, or the status code and body of another response.
type answer struct {
	code  int
	body  any
	watch *watch
}

func (s *Server) answer(r *http.Request, data []byte) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if document := s.discovery(parts); document != nil {
		return ok(document)
	}
	c, found := s.parse(parts)
	if !found {
		return fail(apierrors.NewGenericServerResponse(404, r.Method, schema.GroupResource{}, "", "", 0, false))
	}
	c.r, c.data = r, data
	if err := c.options(); err != nil {
		return fail(apierrors.NewBadRequest(err.Error()))
	}
	if r.Method != http.MethodGet {
		if c.kind.Plural != "events" {
			s.requests = append(s.requests, r.Method+" "+r.URL.Path)
		}
		return c.write()
	}
	switch {
	case r.URL.Query().Get("watch") == "true":
		return c.watch()
	case c.key.Name == "":
		return c.list()
	}
	return c.get()
}

// parse returns the call to a path.
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
		c.key.Namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "")
	c.key.Name, c.sub = parts[1], parts[2]
	n := slices.IndexFunc(s.kinds, func(k Kind) bool { return k.GroupVersion() == gv && k.Plural == parts[0] })
	if n < 0 {
		return nil, false
	}
	c.kind = s.kinds[n]
	return c, true
}

// options reads the parameters and headers that several verbs use.
func (c *call) options() (err error) {
	q := c.r.URL.Query()
	c.dryRun = q.Get("dryRun") != ""
	c.metadataOnly = strings.Contains(c.r.Header.Get("Accept"), "as=PartialObjectMetadata")
	if c.labels, err = labels.Parse(q.Get("labelSelector")); err != nil {
		return err
	}
	c.fields, err = fields.ParseSelector(q.Get("fieldSelector"))
	return err
}

// matches reports whether the call selects an object.
func (c *call) matches(obj *unstructured.Unstructured) bool {
	if obj == nil || c.key.Namespace != "" && obj.GetNamespace() != c.key.Namespace ||
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

// selected returns the objects that the call selects, ordered by namespace and name.
func (c *call) selected() []*unstructured.Unstructured {
	return slices.DeleteFunc(sorted(c.objects[c.kind.resource()]),
		func(obj *unstructured.Unstructured) bool { return !c.matches(obj) })
}

// render returns a shallow copy of the object in the form that the call requests: all of it, or its
// metadata.
func (c *call) render(obj *unstructured.Unstructured) Object {
	if c.metadataOnly {
		return Object{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
			"metadata": obj.Object["metadata"]}
	}
	shown := maps.Clone(obj.Object)
	shown["kind"], shown["apiVersion"] = c.kind.Kind, c.kind.GroupVersion().String()
	return shown
}

// discovery returns the discovery document of a path; nil if it has none.
func (s *Server) discovery(parts []string) any {
	groups := map[string][]metav1.APIResource{}
	var versions []schema.GroupVersion
	for _, k := range s.kinds {
		gv := k.GroupVersion()
		if groups[gv.String()] == nil && gv.Group != "" {
			versions = append(versions, gv)
		}
		groups[gv.String()] = append(groups[gv.String()], metav1.APIResource{Name: k.Plural, Kind: k.Kind,
			SingularName: strings.ToLower(k.Kind), Namespaced: !k.Cluster, Verbs: metav1.Verbs{"create", "delete",
				"deletecollection", "get", "list", "patch", "update", "watch"}})
	}
	switch path := strings.Join(parts, "/"); {
	case path == "api":
		return metav1.APIVersions{Versions: []string{"v1"}}
	case path == "apis":
		var list metav1.APIGroupList
		slices.SortFunc(versions, func(a, b schema.GroupVersion) int { return strings.Compare(a.Group, b.Group) })
		for _, gv := range versions {
			version := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
			list.Groups = append(list.Groups, metav1.APIGroup{
				Name: gv.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version})
		}
		return list
	case len(parts) == 2 && parts[0] == "api", len(parts) == 3 && parts[0] == "apis":
		gv := strings.Join(parts[1:], "/")
		if groups[gv] != nil {
			return metav1.APIResourceList{GroupVersion: gv, APIResources: groups[gv]}
		}
	}
	return nil
}

func reply(w http.ResponseWriter, code int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(code)
	_, _ = w.Write(data)
}

func ok(body any) answer { return answer{code: http.StatusOK, body: body} }

// fail returns the answer that a server sends for an error.
func fail(err *apierrors.StatusError) answer {
	return answer{code: int(err.ErrStatus.Code), body: status(err.ErrStatus)}
}

func (c *call) notFound() answer { return fail(apierrors.NewNotFound(c.kind.resource(), c.key.Name)) }

func status(s metav1.Status) metav1.Status {
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return s
}
