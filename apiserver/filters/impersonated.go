package filters

import (
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/client-go/kubernetes/scheme"
)

// impersonated lets a user act as another one, whom the Impersonate- headers name, if the authorizer allows that.
func (c *Chain) impersonated(next http.Handler) http.Handler {
	var may authorizer.UnconditionalAuthorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	if c.cfg.Authorizer != nil {
		may = c.cfg.Authorizer
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !impersonates(req.Header) {
			next.ServeHTTP(w, req)
			return
		}
		// Kubernetes' filter remembers for some seconds whom it has let through. It is made anew for each of these rare requests, so
		// that a right that was taken away is gone at once.
		impersonation.WithConstrainedImpersonation(next, may, scheme.Codecs).ServeHTTP(w, req)
	})
}

// impersonates says whether a request names another user, or parts of one.
func impersonates(header http.Header) bool {
	for name := range header {
		if strings.HasPrefix(name, "Impersonate-") {
			return true
		}
	}
	return false
}
