package filters

import (
	"context"
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"
)

type userKey struct{}

// WithUser names the caller of requests made with this context. It is for callers in the same process; nothing of it can come over
// a network.
func WithUser(ctx context.Context, u user.Info) context.Context {
	return context.WithValue(ctx, userKey{}, u)
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
