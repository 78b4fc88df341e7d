package filters_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/filters"
	"kelson.dev/internal/assert"
)

// Short requests beyond the limit get 429. Reads and writes have separate limits. Watches and
// administrators are always served. A refused request succeeds once a seat is free.
func TestInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		c := filters.New(filters.Config{
			MaxInFlight: 2, MaxMutatingInFlight: 1, Metrics: prometheus.NewRegistry(),
			Serves: func(info *request.RequestInfo) bool { return info.Resource == "pods" },
			Resources: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if req.URL.Query().Get("wait") != "" {
					<-end
				}
			}),
		})
		serve := func(method, path string, groups ...string) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			req := httptest.NewRequest(method, path, nil)
			req = req.WithContext(filters.WithUser(req.Context(), &user.DefaultInfo{Name: "ann", Groups: groups}))
			c.ServeHTTP(w, req)
			return w
		}
		const pods = "/api/v1/namespaces/x/pods"
		go serve("GET", pods+"?wait=1")
		go serve("GET", pods+"/p?wait=1")
		go serve("GET", pods+"?watch=1&wait=1")
		go serve("GET", pods+"/p/log?wait=1")
		synctest.Wait()
		w := serve("POST", pods)
		assert.Equalf(t, w.Code, 200, "write while the seats of reads are taken")
		go serve("POST", pods+"?wait=1")
		synctest.Wait()

		for _, refused := range []string{"GET " + pods, "GET /version", "POST " + pods, "DELETE " + pods + "/p",
			"PATCH " + pods + "/p"} {
			method, path, _ := strings.Cut(refused, " ")
			w := serve(method, path)
			if w.Code != 429 || w.Header().Get("Retry-After") != "1" ||
				!strings.Contains(w.Body.String(), "Too many requests, please try again later.") {
				t.Errorf("%s: %d %v %s", refused, w.Code, w.Header(), w.Body)
			}
			if w := serve(method, path, user.SystemPrivilegedGroup); w.Code != 200 {
				t.Errorf("%s of an administrator: %d", refused, w.Code)
			}
		}
		w = serve("GET", pods+"?watch=1")
		assert.Equalf(t, w.Code, 200, "a watch")
		text := serve("GET", "/metrics", user.SystemPrivilegedGroup).Body.String()
		for _, line := range []string{
			`apiserver_current_inflight_requests{request_kind="readOnly"} 2`,
			`apiserver_current_inflight_requests{request_kind="mutating"} 1`,
			`apiserver_longrunning_requests{component="apiserver",group="",resource="pods",scope="namespace",subresource="",verb="WATCH",version="v1"} 1`,
		} {
			if !strings.Contains(text, line) {
				t.Errorf("/metrics has no %s", line)
			}
		}
		close(end)
		synctest.Wait()
		for _, method := range []string{"GET", "POST"} {
			w := serve(method, pods)
			assert.Equalf(t, w.Code, 200, "%s afterwards", method)
		}
	})
}
