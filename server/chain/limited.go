package chain

import (
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// What kube-apiserver serves at once by default.
const (
	defaultMaxReading  = 400
	defaultMaxMutating = 200
)

// defaultMaxLasting is how many long-running requests a user may have. kube-apiserver has no such limit, so it lies far above what clients need.
const defaultMaxLasting = 10_000

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

// seatsByUser are those of long-running requests, such as watches: so many for each user.
type seatsByUser struct {
	limit int // negative: any number
	mu    sync.Mutex
	taken map[string]int
}

func (s *seatsByUser) bound(limit, otherwise int) {
	if limit == 0 {
		limit = otherwise
	}
	s.limit, s.taken = limit, map[string]int{}
}

// take says whether a user has one more.
func (s *seatsByUser) take(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit >= 0 && s.taken[name] >= s.limit {
		return false
	}
	s.taken[name]++
	return true
}

func (s *seatsByUser) leave(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[name]--; s.taken[name] == 0 {
		delete(s.taken, name)
	}
}

// limited answers requests beyond what is served at once with 429: short ones of all users together, long-running ones of each. Administrators
// are always served: they may be needed to end what the others do.
func (c *Chain) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		call := callOf(req)
		if exempt(call.info) {
			next.ServeHTTP(w, req)
			return
		}
		if call.lasts {
			name := userName(req)
			if !c.lasting.take(name) {
				if !privileged(req) {
					refuse(w)
					return
				}
			} else {
				defer c.lasting.leave(name)
			}
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
			refuse(w)
		}
	})
}

func refuse(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
}

func reads(verb string) bool { return verb == "get" || verb == "list" || verb == "watch" }

func privileged(req *http.Request) bool {
	u, ok := request.UserFrom(req.Context())
	return ok && slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
}

func userName(req *http.Request) string {
	if u, ok := request.UserFrom(req.Context()); ok {
		return u.GetName()
	}
	return ""
}
