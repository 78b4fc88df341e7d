package rest

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/warning"

	"kelson.dev/apiserver/resource"
)

// Custom kinds are dispatched by the verb, as kube-apiserver's handler of them does; built-in kinds by the router's rules for paths and
// methods. The answers to odd requests differ by that.

// resolveCustom completes a scope for a custom kind.
func (s *scope) resolveCustom(version *resource.Version) error {
	across := s.namespace == "" && (s.info.Verb == "list" || s.info.Verb == "watch")
	if s.res.Namespaced != (s.namespace != "") && !across {
		return errNotFoundPath
	}
	if version.Deprecated != "" {
		warning.AddWarning(s.req.Context(), "", version.Deprecated)
	}
	if s.info.Subresource == "" {
		return nil
	}
	var ok bool
	if s.sub, ok = s.res.SubresourceIn(s.version, s.info.Subresource); !ok {
		return apierrors.NewNotFound(s.res.GroupResource(), s.name)
	}
	return nil
}

// serveCustom dispatches a request on a custom object itself.
func (s *scope) serveCustom() error {
	switch s.info.Verb {
	case "list", "watch":
		return s.list()
	case "create":
		return s.create()
	case "deletecollection":
		return s.deleteCollection()
	case "get", "update", "patch", "delete":
		if s.name == "" {
			return apierrors.NewBadRequest("name must be provided")
		}
	}
	switch s.info.Verb {
	case "get":
		return s.get()
	case "update":
		return s.update()
	case "patch":
		return s.patch()
	case "delete":
		return s.delete()
	}
	return s.methodNotAllowed()
}

// methodNotAllowed is the answer to a method that the path doesn't have.
func (s *scope) methodNotAllowed() error {
	if !compiled(s.res) {
		return apierrors.NewMethodNotSupported(s.res.GroupResource(), s.info.Verb)
	}
	return routeError(http.StatusMethodNotAllowed, "405: Method Not Allowed")
}
