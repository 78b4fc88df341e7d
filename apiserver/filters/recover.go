package filters

import (
	"fmt"
	"net/http"
	"runtime/debug"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kelson.dev/apiserver/rest/wire"
)

// recovered responds to a panic with 500. If the response has begun, it closes the stream, so that
// the client notices that the response is incomplete.
func (c *Chain) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		rec := &callOf(req).answer
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p != http.ErrAbortHandler {
				c.cfg.Log.Error("panic in a request", "method", req.Method, "path", req.URL.Path, "panic", p, "stack",
					string(debug.Stack()))
			}
			if rec.code != 0 || p == http.ErrAbortHandler {
				panic(http.ErrAbortHandler)
			}
			wire.Error(w, req, apierrors.NewInternalError(
				fmt.Errorf("this request caused apiserver to panic. Look in the logs for details")))
		}()
		next.ServeHTTP(w, req)
	})
}
