package controlplane

import (
	"context"
	"net/http"
	"time"

	"kelson.dev/apiserver/crd"
	"kelson.dev/apiserver/filters"
	"kelson.dev/apiserver/store"
)

// catchUp returns a function that updates the registry with definitions written by other control
// planes. It is nil if the store isn't shared.
func catchUp(st *store.Store, definitions *crd.Definitions) func(context.Context) error {
	if !st.Follows() {
		return nil
	}
	return definitions.CatchUp
}

// caughtUp calls catchUp before it serves documents about the registry. If catchUp fails, the
// documents show the definitions known so far.
func caughtUp(catchUp func(context.Context) error, documents http.Handler) http.Handler {
	if catchUp == nil {
		return documents
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx, cancel := context.WithTimeout(req.Context(), time.Second)
		_ = catchUp(ctx)
		cancel()
		documents.ServeHTTP(w, req)
	})
}

// reachable returns the readiness checks of a shared store: whether etcd answers, and whether it
// has space for writes. They are not part of liveness, because a restart would not help.
func reachable(st *store.Store) []filters.Check {
	if !st.Follows() {
		return nil
	}
	fresh := func(ctx context.Context) error {
		_, err := st.Fresh(ctx)
		return err
	}
	return []filters.Check{
		{Name: "etcd", Func: soon(fresh)},
		{Name: "etcd-space", Func: soon(st.Space)},
	}
}

// soon limits a check to the time for which load balancers usually wait.
func soon(check func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return check(ctx)
	}
}
