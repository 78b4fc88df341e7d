package chain

import (
	"context"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/server/rest/wire"
)

type userKey struct{}

// WithUser names the caller of requests made with this context. It is for callers in the same process; nothing of it can come over
// a network.
func WithUser(ctx context.Context, u user.Info) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// authenticated puts the user into the context.
func (c *Chain) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		u, err := c.identify(req)
		if err != nil {
			wire.Error(w, req, apierrors.NewUnauthorized("Unauthorized"))
			return
		}
		req.Header.Del("Authorization") // it is for nobody else
		next.ServeHTTP(w, req.WithContext(request.WithUser(req.Context(), u)))
	})
}

func (c *Chain) identify(req *http.Request) (user.Info, error) {
	if u, ok := req.Context().Value(userKey{}).(user.Info); ok {
		return inGroup(u), nil
	}
	if c.cfg.Authenticator != nil {
		resp, ok, err := c.cfg.Authenticator.AuthenticateRequest(req)
		if err != nil {
			return nil, err
		}
		if ok {
			return inGroup(resp.User), nil
		}
	}
	return &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}, nil
}

// inGroup adds the group that everybody is in whose name is known.
func inGroup(u user.Info) user.Info {
	if u.GetName() == user.Anonymous || slices.Contains(u.GetGroups(), user.AllAuthenticated) || slices.Contains(u.GetGroups(), user.AllUnauthenticated) {
		return u
	}
	return &user.DefaultInfo{
		Name: u.GetName(), UID: u.GetUID(), Extra: u.GetExtra(),
		Groups: append(slices.Clone(u.GetGroups()), user.AllAuthenticated),
	}
}
