package rest

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/server/resource"
	"kelson.dev/server/rest/wire"
)

// routed says what kube-apiserver's router says of a request on a built-in kind before any handler sees it: by its types alone, the
// parameters left out, and without wildcards. Custom kinds have no router.
func (s *scope) routed(stream bool) error {
	if !compiled(s.res) {
		return nil
	}
	if s.req.Method == http.MethodPatch && !anyType(s.req.Header.Get("Content-Type"), s.patchTypes()) {
		return routeError(http.StatusUnsupportedMediaType, "415: Unsupported Media Type")
	}
	accept := s.req.Header.Get("Accept")
	if accept == "" || accept == "application/json" {
		return nil
	}
	types := wire.MediaTypes(stream)
	if anyType(accept, append(types, "*/*")) {
		return nil
	}
	return routeError(http.StatusNotAcceptable, fmt.Sprintf("406: Not Acceptable\n\nAvailable representations: %s", strings.Join(types, ", ")))
}

// routes says whether a path is below that of a built-in group, where kube-apiserver's router answers for what isn't there.
func (h *Handler) routes(req *http.Request) bool {
	info, ok := request.RequestInfoFrom(req.Context())
	return ok && slices.ContainsFunc(h.registry.Current().All(), func(res *resource.Resource) bool {
		return res.Group == info.APIGroup && compiled(res)
	})
}

// anyType says whether one of the types of a header is in a list.
func anyType(header string, list []string) bool {
	for one := range strings.SplitSeq(header, ",") {
		base, _, _ := strings.Cut(one, ";")
		if slices.Contains(list, strings.Trim(base, " ")) {
			return true
		}
	}
	return false
}

func routeError(code int, message string) error {
	return apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", message, 0, false)
}
