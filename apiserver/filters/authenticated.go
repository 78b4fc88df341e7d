package filters

import (
	"errors"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/rest/wire"
)

// authenticated puts the user into the context. Whom nobody knows is answered with 401.
func (c *Chain) authenticated(next http.Handler) http.Handler {
	failed := c.refused(http.HandlerFunc(unauthorized))
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		u, err := c.identify(req)
		if err != nil {
			failed.ServeHTTP(w, req)
			return
		}
		if slices.Contains(u.GetGroups(), user.AllUnauthenticated) {
			loosen(w, req)
		}
		req.Header.Del("Authorization") // it is for nobody else
		callOf(req).user = u
		next.ServeHTTP(w, req)
	})
}

func unauthorized(w http.ResponseWriter, req *http.Request) {
	loosen(w, req)
	wire.Error(w, req, apierrors.NewUnauthorized("Unauthorized"))
}

// loosen lets an HTTP/2 connection of somebody unknown end with this request, as kube-apiserver does: streams are cheap for clients
// and not for servers (CVE-2023-44487).
func loosen(w http.ResponseWriter, req *http.Request) {
	if req.ProtoMajor == 2 {
		w.Header().Set("Connection", "close")
	}
}

// errUnknown says that a request has no credential, and that nobody may be anonymous.
var errUnknown = errors.New("no credential was found")

func (c *Chain) identify(req *http.Request) (user.Info, error) {
	if u, ok := req.Context().Value(userKey{}).(user.Info); ok {
		return inGroup(u), nil
	}
	if c.cfg.Authenticator == nil {
		return &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}, nil
	}
	callOf(req).audiences = c.cfg.Audiences
	start := time.Now()
	resp, ok, err := c.cfg.Authenticator.AuthenticateRequest(req)
	switch {
	case err != nil:
		c.metrics.authenticated("error", start)
		return nil, err
	case !ok:
		c.metrics.authenticated("failure", start)
		return nil, errUnknown
	}
	c.metrics.authenticated("success", start)
	return resp.User, nil
}
