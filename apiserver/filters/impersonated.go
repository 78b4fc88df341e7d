package filters

import (
	"net/http"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/client-go/kubernetes/scheme"
)

// impersonated replaces the user by the user in the Impersonate- headers, if the authorizer allows
// it.
func (c *Chain) impersonated(next http.Handler) http.Handler {
	var auth authorizer.UnconditionalAuthorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	if c.cfg.Authorizer != nil {
		auth = c.cfg.Authorizer
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !impersonates(req.Header) {
			next.ServeHTTP(w, req)
			return
		}
		// Kubernetes' filter caches its decisions for several seconds. A new filter for each of
		// these rare requests applies a revoked permission immediately.
		impersonation.WithConstrainedImpersonation(next, auth, scheme.Codecs).ServeHTTP(w, req)
	})
}

// impersonates reports whether a request has an Impersonate- header.
func impersonates(header http.Header) bool {
	for name := range header {
		if strings.HasPrefix(name, "Impersonate-") {
			return true
		}
	}
	return false
}
