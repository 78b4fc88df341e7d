package filters

import (
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"

	"kelson.dev/apiserver/rest/wire"
)

// Kubernetes' audit annotations of an authorization decision.
const (
	decisionAnnotation = "authorization.k8s.io/decision"
	reasonAnnotation   = "authorization.k8s.io/reason"
)

// authorized rejects requests that the authorizer does not allow with 403.
func (c *Chain) authorized(next http.Handler) http.Handler {
	if c.cfg.Authorizer == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		attributes, err := filters.GetAuthorizerAttributes(req.Context())
		if err != nil {
			wire.Error(w, req, apierrors.NewInternalError(err))
			return
		}
		start := time.Now()
		decision, reason, err := c.cfg.Authorizer.Authorize(req.Context(), attributes)
		c.metrics.authorized(outcome(decision, err), start)
		switch {
		case decision == authorizer.DecisionAllow:
			// err may be set: another authorizer may have failed.
			audit.AddAuditAnnotations(req.Context(), decisionAnnotation, "allow", reasonAnnotation, reason)
			next.ServeHTTP(w, req)
		case err != nil:
			audit.AddAuditAnnotations(req.Context(), reasonAnnotation, "internal error")
			wire.Error(w, req, apierrors.NewInternalError(err))
		default:
			audit.AddAuditAnnotations(req.Context(), decisionAnnotation, "forbid", reasonAnnotation, reason)
			w.Header().Set("X-Content-Type-Options", "nosniff")
			wire.Error(w, req, responsewriters.ForbiddenStatusError(attributes, reason))
		}
	})
}

// outcome returns the metric label of a decision.
func outcome(decision authorizer.Decision, err error) string {
	switch {
	case decision == authorizer.DecisionAllow:
		return "allowed"
	case err != nil:
		return "error"
	case decision == authorizer.DecisionDeny:
		return "denied"
	}
	return "no-opinion"
}
