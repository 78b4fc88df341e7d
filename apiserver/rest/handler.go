package rest

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"kelson.dev/apiserver/metrics"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/apiserver/store"
)

// Config says what a Handler serves.
type Config struct {
	Store    *store.Store
	Registry *resource.Registry
	// Admission may be nil.
	Admission admission.Interface
	// Authorizer is asked when an update or a patch is about to create. nil allows it.
	Authorizer authorizer.UnconditionalAuthorizer
	// CatchUp makes the registry agree with what others wrote to the store. It is called for paths that are not known. nil: nobody else
	// writes to it.
	CatchUp func(context.Context) error
	// Metrics counts what the verbs do; nil: nobody wants to know.
	Metrics *metrics.Verbs
	// MaxBody limits request bodies, in bytes; 0 means 3 MiB, as in kube-apiserver.
	MaxBody int64
	// NoFastPaths leaves all work to the libraries of Kubernetes; see package fastpath.
	NoFastPaths bool
}

// Handler serves requests on resources and is [resource.Objects]. Make it with New.
type Handler struct {
	store      *store.Store
	registry   *resource.Registry
	admission  admission.Interface
	authorizer authorizer.UnconditionalAuthorizer
	catchUp    func(context.Context) error
	metrics    *metrics.Verbs
	maxBody    int64
	// noFastPaths is Config.NoFastPaths.
	noFastPaths bool
	crowds      crowds
	workers     workers
}

// New returns a Handler. It holds nothing that needs closing.
func New(cfg Config) *Handler {
	h := &Handler{
		store:       cfg.Store,
		registry:    cfg.Registry,
		admission:   cfg.Admission,
		authorizer:  cfg.Authorizer,
		catchUp:     cfg.CatchUp,
		metrics:     cfg.Metrics,
		maxBody:     cfg.MaxBody,
		noFastPaths: cfg.NoFastPaths,
	}
	if h.maxBody == 0 {
		h.maxBody = 3 << 20
	}
	return h
}

// scope is one request on a resource: what was asked for, resolved.
type scope struct {
	*Handler
	w    http.ResponseWriter
	req  *http.Request
	ctx  context.Context // of req, with the namespace
	info *request.RequestInfo

	set       *resource.Set
	res       *resource.Resource
	sub       *resource.Subresource // nil: the object itself
	version   string
	kind      schema.GroupVersionKind // of the body, in version
	namespace string
	name      string
}

// errNotFoundPath is answered with the plain text that kube-apiserver has for paths it doesn't know.
var errNotFoundPath = errors.New("404 page not found")

// ServeHTTP serves a request on a resource.
func (h *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s, err := h.resolve(w, req)
	if err == nil {
		err = s.serveOrRefuse()
	}
	switch {
	case err == nil:
	case err == errNotFoundPath && h.routes(req):
		wire.Error(w, req, routeError(http.StatusNotFound, "404: Page Not Found"))
	case err == errNotFoundPath:
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, store.ErrUnreachable):
		wire.Error(w, req, apierrors.NewTimeoutError("it is not known whether the write was done: "+err.Error(), 0))
	default:
		wire.Error(w, req, err)
	}
}

// impossible is what Kubernetes' libraries panic with over a value that is neither a number nor a string, which protobuf can express.
const impossible = "impossible IntOrString.Type"

// serveOrRefuse is serve, where such a value is the client's mistake.
func (s *scope) serveOrRefuse() (err error) {
	defer func() {
		if p := recover(); p != nil {
			if e, ok := p.(error); !ok || e.Error() != impossible {
				panic(p)
			}
			err = apierrors.NewBadRequest(impossible)
		}
	}()
	return s.serve()
}

// resolve finds what a request is about.
func (h *Handler) resolve(w http.ResponseWriter, req *http.Request) (*scope, error) {
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok {
		return nil, apierrors.NewInternalError(errors.New("no RequestInfo found in the context"))
	}
	if !info.IsResourceRequest || info.Verb == "proxy" { // proxies stood below a path of their own once
		return nil, errNotFoundPath
	}
	set := h.registry.Current()
	res, version, ok := find(set, info)
	if !ok && h.catchUp != nil {
		if err := h.catchUp(req.Context()); err != nil {
			return nil, unavailable(err)
		}
		set = h.registry.Current()
		res, version, ok = find(set, info)
	}
	if !ok {
		return nil, errNotFoundPath
	}
	if in := res.In[version.Name]; in != nil {
		res = in
	}
	s := &scope{
		Handler: h, w: w, req: req, info: info,
		set: set, res: res, version: version.Name, kind: res.GVK(version.Name),
		namespace: info.Namespace, name: info.Name,
	}
	if !compiled(res) {
		if err := s.resolveCustom(version); err != nil {
			return nil, err
		}
		if s.sub != nil && !s.sub.GVK.Empty() {
			s.kind = s.sub.GVK
		}
		s.ctx = request.WithNamespace(req.Context(), s.namespace)
		return s, nil
	}
	if info.Subresource != "" {
		if s.sub, ok = res.SubresourceIn(version.Name, info.Subresource); !ok {
			return nil, errNotFoundPath
		}
		if !s.sub.GVK.Empty() {
			s.kind = s.sub.GVK
		}
	}
	if !res.Namespaced {
		if s.namespace != "" && !(isNamespaces(res) && s.namespace == s.name && strings.Count(req.URL.Path, "/namespaces/") == 1) {
			return nil, errNotFoundPath
		}
		s.namespace = ""
	}
	s.ctx = request.WithNamespace(req.Context(), s.namespace)
	return s, nil
}

// isNamespaces tells the kind that has rules of its own in paths and deletion.
func isNamespaces(res *resource.Resource) bool { return res.Group == "" && res.Plural == "namespaces" }

// isDefinitions tells that of CustomResourceDefinitions.
func isDefinitions(res *resource.Resource) bool {
	return res.Group == "apiextensions.k8s.io" && res.Plural == "customresourcedefinitions"
}

// find looks up the kind and version of a path.
func find(set *resource.Set, info *request.RequestInfo) (res *resource.Resource, version *resource.Version, ok bool) {
	if res, ok = set.ByName(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}); ok {
		version, ok = res.Serves(info.APIVersion)
	}
	return res, version, ok
}

// serve dispatches by the shape of the path and the method.
func (s *scope) serve() error {
	switch {
	case !compiled(s.res) && s.sub != nil:
		return s.serveSubresource()
	case !compiled(s.res):
		return s.serveCustom()
	}
	collection := len(s.info.Parts) < 2
	if s.res.Namespaced && s.namespace == "" {
		// Across all namespaces one can only list and watch.
		if !collection || s.res.Verbs != nil && !slices.Contains(s.res.Verbs, "list") {
			return errNotFoundPath
		}
		if s.req.Method != http.MethodGet {
			return s.methodNotAllowed()
		}
	}
	switch {
	case s.sub != nil:
		return s.serveSubresource()
	case len(s.info.Parts) > 2:
		return errNotFoundPath
	case s.res.Review != nil:
		return s.serveReview(collection)
	case s.info.Verb == "watch":
		return s.allowed("watch", s.list)
	case collection:
		switch s.req.Method {
		case http.MethodGet:
			return s.allowed("list", s.list)
		case http.MethodPost:
			return s.allowed("create", s.create)
		case http.MethodDelete:
			return s.allowed("deletecollection", s.deleteCollection)
		}
	default:
		switch s.req.Method {
		case http.MethodGet:
			return s.allowed("get", s.get)
		case http.MethodPut:
			return s.allowed("update", s.update)
		case http.MethodPatch:
			return s.allowed("patch", s.patch)
		case http.MethodDelete:
			return s.allowed("delete", s.delete)
		}
	}
	return s.methodNotAllowed()
}

// allowed runs a verb if the kind has it.
func (s *scope) allowed(verb string, run func() error) error {
	if s.res.Verbs != nil && !slices.Contains(s.res.Verbs, verb) {
		return s.methodNotAllowed()
	}
	if err := s.routed(verb == "list" || verb == "watch"); err != nil {
		return err
	}
	if version, ok := s.res.Serves(s.version); ok && version.Deprecated != "" {
		warning.AddWarning(s.req.Context(), "", version.Deprecated)
	}
	return run()
}

// allow is what the kind can be answered with. Only compiled-in kinds have a protobuf form.
func (s *scope) allow() wire.Allow {
	return wire.Allow{Protobuf: compiled(s.res), Transform: true, NoTable: s.res.Review != nil || s.sub != nil && s.sub.NoTable}
}
