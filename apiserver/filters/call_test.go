package filters

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"kelson.dev/internal/assert"
)

type outerKey struct{}

// The libraries of Kubernetes find the results of the stages in the request's context.
func TestLibrariesFindResultsInContext(t *testing.T) {
	served := false
	ann := &user.DefaultInfo{Name: "ann", Groups: []string{user.AllAuthenticated}}
	identify := authenticator.RequestFunc(func(req *http.Request) (*authenticator.Response, bool, error) {
		if audiences, ok := authenticator.AudiencesFrom(req.Context()); !ok || !audiences.Has("here") {
			t.Errorf("audiences: %v %v", audiences, ok)
		}
		return &authenticator.Response{User: ann}, true, nil
	})
	type innerKey struct{}
	c := New(Config{Authenticator: identify, Audiences: authenticator.Audiences{"here"},
		Resources: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			served = true
			ctx := context.WithValue(req.Context(), innerKey{}, "deep")
			if u, _ := request.UserFrom(ctx); u != ann {
				t.Errorf("user: %v", u)
			}
			if info, ok := request.RequestInfoFrom(ctx); !ok || info.Resource != "pods" {
				t.Errorf("info: %v", info)
			}
			if received, ok := request.ReceivedTimestampFrom(ctx); !ok || time.Since(received) > time.Minute {
				t.Errorf("received: %v", received)
			}
			if ctx.Value(innerKey{}) != "deep" || ctx.Value(outerKey{}) != "kept" {
				t.Error("other values are lost")
			}
			warning.AddWarning(ctx, "", "mind the gap")
			warning.AddWarning(ctx, "", "mind the gap")
			warning.AddWarning(ctx, "", "and this")
		})})
	w := httptest.NewRecorder()
	ctx := context.WithValue(t.Context(), outerKey{}, "kept")
	c.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/api/v1/pods", nil))
	if got := w.Header().Values("Warning"); !served || len(got) != 2 || got[0] != `299 - "mind the gap"` {
		t.Errorf("served: %v, warnings: %q", served, got)
	}
}

// A request without waiters creates no timer. Its context still ends like one with a timer.
func TestDeadlineOfARequest(t *testing.T) {
	// serve runs a short request whose handler calls handler with its context.
	serve := func(ctx context.Context, handler func(context.Context)) context.Context {
		var kept context.Context
		c := New(Config{Timeout: time.Minute,
			Resources: http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				kept = req.Context()
				handler(kept)
			})})
		c.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", "/api/v1/pods", nil))
		return kept
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		serve(t.Context(), func(ctx context.Context) { // the handler waits for the context
			if at, ok := ctx.Deadline(); !ok || !at.Equal(start.Add(time.Minute)) || ctx.Err() != nil {
				t.Errorf("deadline: %v %v, %v", at, ok, ctx.Err())
			}
			<-ctx.Done()
			if time.Since(start) != time.Minute || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("after %v: %v", time.Since(start), ctx.Err())
			}
		})
		after := serve(t.Context(), func(ctx context.Context) { // the handler only reads Err
			time.Sleep(time.Minute)
			assert.ErrorIsf(t, ctx.Err(), context.DeadlineExceeded, "the context has not ended")
		})
		assert.ErrorIsf(t, after.Err(), context.DeadlineExceeded, "Err returned a different result")
		serve(t.Context(), func(ctx context.Context) { // the handler waits for a derived context
			child, cancel := context.WithCancel(context.WithValue(ctx, callKey{}, nil))
			defer cancel()
			<-child.Done()
			assert.ErrorIsf(t, child.Err(), context.DeadlineExceeded, "child")
		})
		ended := make(chan error, 2)
		// goroutines that wait longer than the request
		serve(t.Context(), func(ctx context.Context) {
			go func() { <-ctx.Done(); ended <- ctx.Err() }()
			child, cancel := context.WithCancel(ctx)
			_ = cancel
			go func() { <-child.Done(); ended <- child.Err() }()
		})
		for range 2 {
			assert.ErrorIsf(t, <-ended, context.Canceled, "after its end")
		}
		// first used after the request
		after = serve(t.Context(), func(context.Context) {})
		assert.ErrorIsf(t, after.Err(), context.Canceled, "after its end")
		<-after.Done()

		outer, cancel := context.WithCancel(t.Context()) // the client closes the connection
		serve(outer, func(ctx context.Context) {
			cancel()
			assert.ErrorIsf(t, ctx.Err(), context.Canceled, "the client is gone")
			<-ctx.Done()
		})
		assert.Equalf(t, time.Since(start), 3*time.Minute, "took")
	})
}

// Deadlines have a monotonic clock reading, so that setting the clock does not move them.
func TestDeadlinesAreMonotonic(t *testing.T) {
	served := false
	c := New(Config{Resources: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		served = true
		at, ok := req.Context().Deadline()
		if !ok || !strings.Contains(at.String(), " m=") {
			t.Errorf("deadline: %v %v", at, ok)
		}
		received, _ := request.ReceivedTimestampFrom(req.Context())
		assert.Containsf(t, received.String(), " m=", "received: %v", received)
	})})
	c.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/api/v1/pods", nil))
	if !served {
		t.Error("not served")
	}
}
