package chain

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kelson.dev/server/rest/wire"
)

// recovered answers a panic with 500, or cuts the connection if the answer has begun, so that nobody takes it for whole.
func (c *Chain) recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		rec := &callOf(req).answer
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if p != http.ErrAbortHandler {
				c.cfg.Log.Error("panic in a request", "method", req.Method, "path", req.URL.Path, "panic", p, "stack", string(debug.Stack()))
			}
			if rec.code != 0 || p == http.ErrAbortHandler {
				panic(http.ErrAbortHandler)
			}
			wire.Error(w, req, apierrors.NewInternalError(fmt.Errorf("this request caused apiserver to panic. Look in the logs for details")))
		}()
		next.ServeHTTP(w, req)
	})
}

// recorder remembers the status code of an answer.
type recorder struct {
	http.ResponseWriter
	code int // 0: nothing was sent yet
}

func (r *recorder) WriteHeader(code int) {
	if r.code == 0 && code >= 200 {
		r.code = code
	}
	r.ResponseWriter.WriteHeader(code)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.code == 0 {
		r.code = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// Flush sends what was written so far, as watches need it.
func (r *recorder) Flush() {
	if r.code == 0 {
		r.code = http.StatusOK
	}
	_ = http.NewResponseController(r.ResponseWriter).Flush()
}

// Hijack hands the connection over to what is no longer HTTP.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buf, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil && r.code == 0 {
		r.code = http.StatusSwitchingProtocols
	}
	return conn, buf, err
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
