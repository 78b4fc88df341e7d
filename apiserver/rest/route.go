package rest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest/wire"
)

// checkRoute returns the error of kube-apiserver's router, which rejects the media types of a
// request before a handler runs. The router ignores parameters of media types and wildcards such as
// application/*. Kinds that are dispatched by the verb have no router.
func (s *scope) checkRoute(stream bool) error {
	if s.on.res.Behavior.DispatchByVerb {
		return nil
	}
	contentType := s.in.req.Header.Get("Content-Type")
	if s.in.req.Method == http.MethodPatch && (contentType == "" || !wire.Accepts(contentType, s.on.patchTypes())) {
		return routeError(http.StatusUnsupportedMediaType, "415: Unsupported Media Type")
	}
	accept := s.in.req.Header.Get("Accept")
	if accept == "" || accept == "application/json" {
		return nil
	}
	types := wire.MediaTypes(stream)
	if wire.Accepts(accept, types) || wire.Accepts(accept, anyType) {
		return nil
	}
	return routeError(http.StatusNotAcceptable, fmt.Sprintf("406: Not Acceptable\n\nAvailable representations: %s",
		strings.Join(types, ", ")))
}

var anyType = []string{"*/*"}

// hasRouter reports whether a path is in a group with routed kinds, where kube-apiserver's router
// sends the 404.
func (h *Handler) hasRouter(req *http.Request) bool {
	info, ok := request.RequestInfoFrom(req.Context())
	return ok && slices.ContainsFunc(h.registry.Current().All(), func(res *resource.Resource) bool {
		return res.Group == info.APIGroup && !res.Behavior.DispatchByVerb
	})
}

func routeError(code int, message string) error { return wire.RouteError(code, message) }
