package rest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"kelson.dev/apiserver/flowcontrol"
	"kelson.dev/apiserver/resource"
)

// operations implement the verbs on a kind that is stored.
var operations = map[string]func(*scope) error{
	resource.Get:              (*scope).get,
	resource.List:             (*scope).list,
	resource.Watch:            (*scope).list,
	resource.Create:           (*scope).create,
	resource.Update:           (*scope).update,
	resource.Patch:            (*scope).patch,
	resource.Delete:           (*scope).delete,
	resource.DeleteCollection: (*scope).deleteCollection,
}

// resolve finds the kind, version and subresource that a request names.
func (h *Handler) resolve(w http.ResponseWriter, req *http.Request) (*scope, error) {
	info, ok := request.RequestInfoFrom(req.Context())
	if !ok {
		return nil, apierrors.NewInternalError(errors.New("no RequestInfo found in the context"))
	}
	if !info.IsResourceRequest || info.Verb == resource.Proxy || info.APIPrefix == "apis" && info.APIGroup == "" {
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
	s := h.scope(w, req, target{
		info: info, set: set, res: res, version: version.Name, kind: res.GVK(version.Name),
		namespace: info.Namespace, name: info.Name,
	})
	var err error
	if res.Behavior.DispatchByVerb {
		err = s.resolveVerb(version)
	} else {
		err = s.resolvePath()
	}
	if err != nil {
		return nil, err
	}
	if s.on.sub != nil && !s.on.sub.GVK.Empty() {
		s.on.kind = s.on.sub.GVK
	}
	if req.Method != http.MethodGet && isExternal(s.in.ctx) {
		s.h.deliveries.await(s.in.ctx, s.h.store)
	}
	return s, nil
}

// scope returns the scope of a request.
func (h *Handler) scope(w http.ResponseWriter, req *http.Request, on target) *scope {
	s := &scope{h: h, on: on}
	s.in = input{req: req, ctx: request.WithNamespace(req.Context(), on.info.Namespace), on: &s.on,
		maxBody: h.maxBody, metrics: h.metrics}
	s.out = output{w: w, on: &s.on, in: &s.in}
	return s
}

// find looks up the kind and version of a path.
func find(set *resource.Set, info *request.RequestInfo) (res *resource.Resource, version *resource.Version, ok bool) {
	if res, ok = set.ByName(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}); ok {
		version, ok = res.Serves(info.APIVersion)
	}
	return res, version, ok
}

// resolvePath completes the scope of a kind with paths in kube-apiserver's router. It clears the
// namespace of a request on a Namespace, which is stored without one; the context keeps it, because
// admission and authorization see such a request in the namespace that it names.
func (s *scope) resolvePath() error {
	if s.on.info.Subresource != "" {
		var ok bool
		if s.on.sub, ok = s.on.res.SubresourceIn(s.on.version, s.on.info.Subresource); !ok {
			return errNotFoundPath
		}
	}
	// Requests on this path are authorized as watches, whatever their method, so they must not
	// reach a subresource or a review.
	if s.on.onWatchPath() && (s.on.sub != nil || s.on.res.Review != nil || !s.on.has(resource.Watch)) {
		return errNotFoundPath
	}
	if s.on.sub != nil && s.on.info.Parts[1] == "" { // a field selector must not replace the name
		return apierrors.NewBadRequest("name must be provided")
	}
	if s.on.res.Namespaced {
		return nil
	}
	self := s.on.res.Behavior.IsNamespace && s.on.namespace == s.on.name &&
		strings.Count(s.in.req.URL.Path, "/namespaces/") == 1
	if s.on.namespace != "" && !self {
		return errNotFoundPath
	}
	s.on.namespace = ""
	return nil
}

// resolveVerb completes the scope of a kind that is dispatched by the verb.
func (s *scope) resolveVerb(version *resource.Version) error {
	across := s.on.namespace == "" && (s.on.info.Verb == resource.List || s.on.info.Verb == resource.Watch)
	if s.on.res.Namespaced != (s.on.namespace != "") && !across {
		return errNotFoundPath
	}
	s.noteDeprecated(version)
	if s.on.info.Subresource == "" {
		return nil
	}
	var ok bool
	if s.on.sub, ok = s.on.res.SubresourceIn(s.on.version, s.on.info.Subresource); !ok {
		return apierrors.NewNotFound(s.on.res.GroupResource(), s.on.name)
	}
	return nil
}

// serve runs the operation of the request.
func (s *scope) serve() error {
	verb, err := s.verb()
	switch {
	case err != nil:
		return err
	case s.on.sub != nil:
		return s.serveSubresource()
	case s.on.res.Review != nil:
		return s.serveReview()
	}
	if err := s.checkName(); err != nil {
		return err
	}
	operation := operations[verb]
	if s.on.res.Computed != nil {
		operation = computedOperations[verb]
	}
	switch {
	case operation == nil && verb == resource.Watch:
		return apierrors.NewMethodNotSupported(s.on.res.GroupResource(), verb)
	case operation == nil:
		return s.on.methodNotAllowed()
	}
	if err := s.allowed(verb); err != nil {
		return err
	}
	if s.on.waits() {
		defer flowcontrol.Wait(s.in.ctx)()
	}
	return operation(s)
}

// checkName returns an error if no object can have the name in the path. Kubernetes looks names up
// only where it reads or changes an object.
func (s *scope) checkName() error {
	if s.on.name == "" || s.in.req.Method == http.MethodPut || s.in.req.Method == http.MethodPost {
		return nil
	}
	if errs := content.IsPathSegmentName(s.on.name); len(errs) > 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("Name parameter invalid: %q: %s", s.on.name,
			strings.Join(errs, ";")))
	}
	return nil
}

// verb returns the verb of a request on objects, or "" if the method has none on this path. Errors
// come before any other check.
func (s *scope) verb() (string, error) {
	if s.on.res.Behavior.DispatchByVerb {
		switch s.on.info.Verb {
		case resource.Get, resource.Update, resource.Patch, resource.Delete:
			if s.on.name == "" && s.on.sub == nil {
				return "", apierrors.NewBadRequest("name must be provided")
			}
		}
		return s.on.info.Verb, nil
	}
	collection := len(s.on.info.Parts) < 2
	if s.on.res.Namespaced && s.on.namespace == "" {
		// Without a namespace a client can only list and watch.
		if !collection || !s.on.has(resource.List) {
			return "", errNotFoundPath
		}
		if s.in.req.Method != http.MethodGet {
			return "", s.on.methodNotAllowed()
		}
	}
	switch {
	case s.on.sub != nil:
		return "", nil // serveSubresource looks at the method
	case len(s.on.info.Parts) > 2, s.on.res.Review != nil && !collection:
		return "", errNotFoundPath
	case s.on.info.Verb == resource.Watch && s.in.req.Method != http.MethodGet:
		return "", nil // authorized as a watch, so it must not be another operation
	case s.on.info.Verb == resource.Watch:
		return resource.Watch, nil
	case collection:
		return collectionVerbs[s.in.req.Method], nil
	}
	return objectVerbs[s.in.req.Method], nil
}

// collectionVerbs and objectVerbs are the verbs of methods on the two shapes of paths that
// kube-apiserver's router has routes for.
var (
	collectionVerbs = map[string]string{
		http.MethodGet: resource.List, http.MethodPost: resource.Create, http.MethodDelete: resource.DeleteCollection,
	}
	objectVerbs = map[string]string{
		http.MethodGet: resource.Get, http.MethodPut: resource.Update, http.MethodPatch: resource.Patch,
		http.MethodDelete: resource.Delete,
	}
)

// allowed checks that the kind has a verb and that the router lets the request through. It warns of
// a deprecated version.
func (s *scope) allowed(verb string) error {
	if !s.on.has(verb) {
		return s.on.methodNotAllowed()
	}
	if err := s.checkRoute(verb == resource.List || verb == resource.Watch); err != nil {
		return err
	}
	if version, ok := s.on.res.Serves(s.on.version); ok {
		s.noteDeprecated(version)
	}
	return nil
}

// noteDeprecated adds a warning and an audit annotation if the version is deprecated.
func (s *scope) noteDeprecated(version *resource.Version) {
	if version.Deprecated == "" {
		return
	}
	warning.AddWarning(s.in.req.Context(), "", version.Deprecated)
	audit.AddAuditAnnotation(s.in.req.Context(), "k8s.io/deprecated", "true")
}
