package wire

import (
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Document returns a handler for one document in one media type. Only GET is allowed, and the
// client must accept the media type or all types. Errors are those of kube-apiserver's router.
func Document(media string, serve http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case req.Method != http.MethodGet:
			Error(w, req, RouteError(http.StatusMethodNotAllowed, "405: Method Not Allowed"))
		case !Accepts(req.Header.Get("Accept"), []string{media, "*/*"}):
			Error(w, req, RouteError(http.StatusNotAcceptable,
				"406: Not Acceptable\n\nAvailable representations: "+media))
		default:
			serve(w, req)
		}
	})
}

// Accepts reports whether one of the types of a header, without its parameters, is in a list. A
// missing header accepts all types.
func Accepts(header string, list []string) bool {
	if header == "" {
		return true
	}
	for one := range strings.SplitSeq(header, ",") {
		base, _, _ := strings.Cut(one, ";")
		if slices.Contains(list, strings.Trim(base, " ")) {
			return true
		}
	}
	return false
}

// RouteError returns an error with the wording of kube-apiserver's router.
func RouteError(code int, message string) error {
	return apierrors.NewGenericServerResponse(code, "", schema.GroupResource{}, "", message, 0, false)
}
