package controlplane

import (
	"context"
	"net/http"
	"time"

	"kelson.dev/apiserver/crd"
	"kelson.dev/apiserver/filters"
	"kelson.dev/apiserver/store"
)

// catchUp makes the registry agree with what other control planes wrote; nil where there are none.
func catchUp(st *store.Store, definitions *crd.Definitions) func(context.Context) error {
	if !st.Follows() {
		return nil
	}
	return definitions.CatchUp
}

// caughtUp puts a catchUp before documents about the registry. When the others can't be asked, they say what is known here.
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

// reachable is the part of readiness that a shared state has: that it can be asked. It says nothing of liveness, for nothing would be
// better after a start anew.
func reachable(st *store.Store) []filters.Check {
	if !st.Follows() {
		return nil
	}
	return []filters.Check{{Name: "etcd", Func: func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err := st.Fresh(ctx)
		return err
	}}}
}
