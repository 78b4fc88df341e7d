package chain

import (
	"net/http"
	"slices"
	"sync/atomic"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// What kube-apiserver serves at once by default.
const (
	defaultMaxReading  = 400
	defaultMaxMutating = 200
)

// seats are those of one kind of short requests.
type seats struct {
	taken atomic.Int64
	limit int64 // negative: none
}

func (s *seats) bound(limit, otherwise int) {
	if limit == 0 {
		limit = otherwise
	}
	s.limit = int64(limit)
}

// take says whether there is one more.
func (s *seats) take() bool {
	if n := s.taken.Add(1); s.limit < 0 || n <= s.limit {
		return true
	}
	s.leave()
	return false
}

func (s *seats) leave() { s.taken.Add(-1) }

// limited answers short requests beyond what is served at once with 429. Administrators are always served: they may be needed to end
// what the others do.
func (c *Chain) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		call := callOf(req)
		if call.lasts {
			next.ServeHTTP(w, req)
			return
		}
		kind := &c.mutating
		if reads(call.info.Verb) {
			kind = &c.reading
		}
		switch {
		case kind.take():
			defer kind.leave()
			next.ServeHTTP(w, req)
		case privileged(req):
			next.ServeHTTP(w, req)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
		}
	})
}

func reads(verb string) bool { return verb == "get" || verb == "list" || verb == "watch" }

func privileged(req *http.Request) bool {
	u, ok := request.UserFrom(req.Context())
	return ok && slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
}
