package rest

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"kelson.dev/apiserver/flowcontrol"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest/wire"
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
	s := &scope{
		Handler: h, w: w, req: req, info: info,
		set: set, res: res, version: version.Name, kind: res.GVK(version.Name),
		namespace: info.Namespace, name: info.Name,
	}
	var err error
	if res.Behavior.DispatchByVerb {
		err = s.resolveVerb(version)
	} else {
		err = s.resolvePath()
	}
	if err != nil {
		return nil, err
	}
	if s.sub != nil && !s.sub.GVK.Empty() {
		s.kind = s.sub.GVK
	}
	s.ctx = request.WithNamespace(req.Context(), info.Namespace)
	if req.Method != http.MethodGet && isExternal(s.ctx) {
		s.deliveries.await(s.ctx, s.store)
	}
	return s, nil
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
	if s.info.Subresource != "" {
		var ok bool
		if s.sub, ok = s.res.SubresourceIn(s.version, s.info.Subresource); !ok {
			return errNotFoundPath
		}
	}
	// Requests on this path are authorized as watches, whatever their method, so they must not
	// reach a subresource or a review.
	if s.onWatchPath() && (s.sub != nil || s.res.Review != nil || !s.has(resource.Watch)) {
		return errNotFoundPath
	}
	if s.sub != nil && s.info.Parts[1] == "" { // a field selector must not replace the name
		return apierrors.NewBadRequest("name must be provided")
	}
	if s.res.Namespaced {
		return nil
	}
	self := s.res.Behavior.IsNamespace && s.namespace == s.name && strings.Count(s.req.URL.Path, "/namespaces/") == 1
	if s.namespace != "" && !self {
		return errNotFoundPath
	}
	s.namespace = ""
	return nil
}

// onWatchPath reports whether the request has the old path of a watch, such as /api/v1/watch/pods.
func (s *scope) onWatchPath() bool {
	if s.info.Verb != resource.Watch {
		return false
	}
	parts := strings.Split(strings.Trim(s.info.Path, "/"), "/")
	verb := 2 // after the prefix and the version
	if s.info.APIPrefix == "apis" {
		verb = 3
	}
	return len(parts) > verb && parts[verb] == resource.Watch
}

// resolveVerb completes the scope of a kind that is dispatched by the verb.
func (s *scope) resolveVerb(version *resource.Version) error {
	across := s.namespace == "" && (s.info.Verb == resource.List || s.info.Verb == resource.Watch)
	if s.res.Namespaced != (s.namespace != "") && !across {
		return errNotFoundPath
	}
	s.noteDeprecated(version)
	if s.info.Subresource == "" {
		return nil
	}
	var ok bool
	if s.sub, ok = s.res.SubresourceIn(s.version, s.info.Subresource); !ok {
		return apierrors.NewNotFound(s.res.GroupResource(), s.name)
	}
	return nil
}

// serve runs the operation of the request.
func (s *scope) serve() error {
	verb, err := s.verb()
	switch {
	case err != nil:
		return err
	case s.sub != nil:
		return s.serveSubresource()
	case s.res.Review != nil:
		return s.serveReview()
	}
	if err := s.checkName(); err != nil {
		return err
	}
	operation := operations[verb]
	if s.res.Computed != nil {
		operation = computedOperations[verb]
	}
	switch {
	case operation == nil && verb == resource.Watch:
		return apierrors.NewMethodNotSupported(s.res.GroupResource(), verb)
	case operation == nil:
		return s.methodNotAllowed()
	}
	if err := s.allowed(verb); err != nil {
		return err
	}
	if s.waits() {
		defer flowcontrol.Wait(s.ctx)()
	}
	return operation(s)
}

// checkName returns an error if no object can have the name in the path. Kubernetes looks names up
// only where it reads or changes an object.
func (s *scope) checkName() error {
	if s.name == "" || s.req.Method == http.MethodPut || s.req.Method == http.MethodPost {
		return nil
	}
	if errs := content.IsPathSegmentName(s.name); len(errs) > 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("Name parameter invalid: %q: %s", s.name, strings.Join(errs, ";")))
	}
	return nil
}

// waits reports whether objects of the kind are converted by a webhook. A conversion has no
// context, so the whole request counts as waiting for it.
func (s *scope) waits() bool {
	codec, ok := s.res.Codec.(resource.Waiting)
	return ok && codec.Waits()
}

// verb returns the verb of a request on objects, or "" if the method has none on this path. Errors
// come before any other check.
func (s *scope) verb() (string, error) {
	if s.res.Behavior.DispatchByVerb {
		switch s.info.Verb {
		case resource.Get, resource.Update, resource.Patch, resource.Delete:
			if s.name == "" && s.sub == nil {
				return "", apierrors.NewBadRequest("name must be provided")
			}
		}
		return s.info.Verb, nil
	}
	collection := len(s.info.Parts) < 2
	if s.res.Namespaced && s.namespace == "" {
		// Without a namespace a client can only list and watch.
		if !collection || !s.has(resource.List) {
			return "", errNotFoundPath
		}
		if s.req.Method != http.MethodGet {
			return "", s.methodNotAllowed()
		}
	}
	switch {
	case s.sub != nil:
		return "", nil // serveSubresource looks at the method
	case len(s.info.Parts) > 2, s.res.Review != nil && !collection:
		return "", errNotFoundPath
	case s.info.Verb == resource.Watch && s.req.Method != http.MethodGet:
		return "", nil // authorized as a watch, so it must not be another operation
	case s.info.Verb == resource.Watch:
		return resource.Watch, nil
	case collection:
		return collectionVerbs[s.req.Method], nil
	}
	return objectVerbs[s.req.Method], nil
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

// has reports whether the kind has a verb.
func (s *scope) has(verb string) bool {
	return s.res.Verbs == nil || slices.Contains(s.res.Verbs, verb)
}

// allowed checks that the kind has a verb and that the router lets the request through. It warns of
// a deprecated version.
func (s *scope) allowed(verb string) error {
	if !s.has(verb) {
		return s.methodNotAllowed()
	}
	if err := s.checkRoute(verb == resource.List || verb == resource.Watch); err != nil {
		return err
	}
	if version, ok := s.res.Serves(s.version); ok {
		s.noteDeprecated(version)
	}
	return nil
}

// noteDeprecated adds a warning and an audit annotation if the version is deprecated.
func (s *scope) noteDeprecated(version *resource.Version) {
	if version.Deprecated == "" {
		return
	}
	warning.AddWarning(s.req.Context(), "", version.Deprecated)
	audit.AddAuditAnnotation(s.req.Context(), "k8s.io/deprecated", "true")
}

// methodNotAllowed returns the 405 of the request's kind.
func (s *scope) methodNotAllowed() error {
	if s.res.Behavior.DispatchByVerb {
		return apierrors.NewMethodNotSupported(s.res.GroupResource(), s.info.Verb)
	}
	return routeError(http.StatusMethodNotAllowed, "405: Method Not Allowed")
}

// allow returns the forms that objects of the kind have.
func (s *scope) allow() wire.Allow {
	return wire.Allow{
		Protobuf: !s.res.Behavior.NoProtobuf, Transform: true, NoTable: s.res.Review != nil ||
			s.sub != nil && s.sub.NoTable,
	}
}
