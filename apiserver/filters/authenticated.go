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

// authenticated puts the user into the context. Requests without an identified user get 401.
func (c *Chain) authenticated(next http.Handler) http.Handler {
	failed := c.refused(http.HandlerFunc(unauthorized))
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		u, err := c.identify(req)
		if err != nil {
			failed.ServeHTTP(w, req)
			return
		}
		if slices.Contains(u.GetGroups(), user.AllUnauthenticated) {
			closeHTTP2(w, req)
		}
		req.Header.Del("Authorization") // later stages must not see the credential
		callOf(req).user = u
		next.ServeHTTP(w, req)
	})
}

func unauthorized(w http.ResponseWriter, req *http.Request) {
	closeHTTP2(w, req)
	wire.Error(w, req, apierrors.NewUnauthorized("Unauthorized"))
}

// closeHTTP2 ends an unauthenticated client's HTTP/2 connection after this request, as
// kube-apiserver does: streams are cheap for clients but not for servers (CVE-2023-44487).
func closeHTTP2(w http.ResponseWriter, req *http.Request) {
	if req.ProtoMajor == 2 {
		w.Header().Set("Connection", "close")
	}
}

// errUnknown reports a request without a credential while anonymous requests are not accepted.
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
		c.cfg.Log.Debug("authenticate a request", "err", err) // the client gets no reason
		return nil, err
	case !ok:
		c.metrics.authenticated("failure", start)
		return nil, errUnknown
	}
	c.metrics.authenticated("success", start)
	return resp.User, nil
}
