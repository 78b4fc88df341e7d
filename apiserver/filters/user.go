package filters

import (
	"context"
	"slices"

	"k8s.io/apiserver/pkg/authentication/user"
)

type userKey struct{}

// WithUser sets the user of requests made with the returned context, for callers in the same
// process. A client on the network cannot set it.
func WithUser(ctx context.Context, u user.Info) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// inGroup adds the group system:authenticated to a user who is not anonymous.
func inGroup(u user.Info) user.Info {
	if u.GetName() == user.Anonymous || slices.Contains(u.GetGroups(), user.AllAuthenticated) ||
		slices.Contains(u.GetGroups(), user.AllUnauthenticated) {
		return u
	}
	return &user.DefaultInfo{
		Name: u.GetName(), UID: u.GetUID(), Extra: u.GetExtra(),
		Groups: append(slices.Clone(u.GetGroups()), user.AllAuthenticated),
	}
}
