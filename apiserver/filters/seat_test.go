package filters_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/filters"
	"kelson.dev/apiserver/flowcontrol"
	"kelson.dev/internal/assert"
)

// unreadResponse is a response whose client reads nothing until read is closed.
type unreadResponse struct {
	*httptest.ResponseRecorder
	read <-chan struct{}
}

func (u unreadResponse) Write(p []byte) (int, error) {
	if u.Code == http.StatusOK {
		<-u.read
	}
	return u.ResponseRecorder.Write(p)
}

func (u unreadResponse) SetWriteDeadline(time.Time) error { return nil }

// Clients that do not read their responses do not hold the seats of others: with 500 such requests
// of one user, another user's request takes a fraction of a second. The first user gets 429 after
// many unread responses, so that their memory is bounded.
func TestUnreadResponsesHoldNoSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		document := []byte(strings.Repeat("x", 1<<20))
		c, serve := tenants(t, filters.Config{
			Resources: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { w.Write(document) })}, 20)
		const path = "/api/v1/namespaces/x/configmaps"
		read := make(chan struct{})
		var (
			clients sync.WaitGroup
			refused atomic.Int32
		)
		for range 500 {
			clients.Go(func() {
				w := unreadResponse{httptest.NewRecorder(), read}
				req := httptest.NewRequest("GET", path, nil)
				c.ServeHTTP(w, req.WithContext(filters.WithUser(req.Context(), &user.DefaultInfo{Name: "mallory"})))
				if w.Code == http.StatusTooManyRequests {
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		for i := range 3 {
			start := time.Now()
			w := serve("ann", "GET", path)
			if took := time.Since(start); w.Code != http.StatusOK || took > 200*time.Millisecond {
				t.Errorf("request %d while other responses are unread: %d after %s", i, w.Code, took)
			}
		}
		time.Sleep(3 * time.Second)
		if unread := 500 - refused.Load(); unread < 50 || unread > 100 {
			t.Errorf("%d of 500 requests have unread responses", unread)
		}
		close(read)
		clients.Wait()
		w := serve("mallory", "GET", path)
		assert.Equalf(t, w.Code, http.StatusOK, "after all responses were read")
	})
}

// Requests that wait for another server, such as a webhook, do not hold the seats of others. A user
// with many gets 429; when the servers have answered, the user's requests are served again.
func TestWaitingForServersHoldsNoSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const path = "/api/v1/namespaces/x/configmaps"
		answered := make(chan struct{})
		c, serve := tenants(t, filters.Config{Resources: http.HandlerFunc(func(_ http.ResponseWriter,
			req *http.Request) {
			if u, _ := request.UserFrom(req.Context()); u.GetName() == "mallory" {
				defer flowcontrol.Wait(req.Context())()
				<-answered
			}
		})}, 20)
		var (
			clients sync.WaitGroup
			refused atomic.Int32
		)
		for range 500 {
			clients.Go(func() {
				w := httptest.NewRecorder()
				req := httptest.NewRequest("POST", path, nil)
				c.ServeHTTP(w, req.WithContext(filters.WithUser(req.Context(), &user.DefaultInfo{Name: "mallory"})))
				if w.Code == http.StatusTooManyRequests {
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		for i := range 3 {
			start := time.Now()
			w := serve("ann", "POST", path)
			if took := time.Since(start); w.Code != http.StatusOK || took > 200*time.Millisecond {
				t.Errorf("request %d while others wait for a server: %d after %s", i, w.Code, took)
			}
		}
		time.Sleep(3 * time.Second)
		if waiting := 500 - refused.Load(); waiting < 200 || waiting > 240 {
			t.Errorf("%d of 500 requests wait for a server", waiting)
		}
		close(answered)
		clients.Wait()
		w := serve("mallory", "POST", path)
		assert.Equalf(t, w.Code, http.StatusOK, "after all servers answered")
	})
}
