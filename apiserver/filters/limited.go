package filters

import (
	"cmp"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/resource"
)

// The limits of kube-apiserver's --max-requests-inflight and --max-mutating-requests-inflight.
const (
	defaultMaxReading  = 400
	defaultMaxMutating = 200
)

// defaultMaxLongRunning is how many long-running requests a user may have. kube-apiserver has no
// such limit. Even the largest controllers need fewer (a watch for each of a few thousand kinds).
// If a user has that many watches and reads none of them, the server needs less than half a GiB for
// them: see TestUnreadWatches.
const defaultMaxLongRunning = 10_000

// seats counts and bounds the short requests that read, or those that write.
type seats struct {
	taken atomic.Int64
	limit int64 // negative: no limit
}

func (s *seats) bound(limit, otherwise int) {
	limit = cmp.Or(limit, otherwise)
	s.limit = int64(limit)
}

// take takes a seat if one is free, and reports whether it did.
func (s *seats) take() bool {
	if n := s.taken.Add(1); s.limit < 0 || n <= s.limit {
		return true
	}
	s.leave()
	return false
}

func (s *seats) leave() { s.taken.Add(-1) }

// seatsByUser counts and bounds the long-running requests of each owner.
type seatsByUser struct {
	limit int // negative: no limit
	mu    sync.Mutex
	taken map[string]int
}

func (s *seatsByUser) bound(limit, otherwise int) {
	limit = cmp.Or(limit, otherwise)
	s.limit, s.taken = limit, map[string]int{}
}

// take takes n seats of an owner if they are free, and reports whether it did.
func (s *seatsByUser) take(owner string, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit >= 0 && s.taken[owner]+n > s.limit {
		return false
	}
	s.taken[owner] += n
	return true
}

// force takes one more seat, even beyond the limit.
func (s *seatsByUser) force(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken[owner]++
}

// full reports whether take would refuse a seat.
func (s *seatsByUser) full(owner string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.limit >= 0 && s.taken[owner] >= s.limit
}

func (s *seatsByUser) leave(owner string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[owner] -= n; s.taken[owner] == 0 {
		delete(s.taken, owner)
	}
}

// headPerSeat is how many bytes the head of a long-running request may have for each seat that the
// request takes.
const headPerSeat = 16 << 10

// headSize returns the size of a request's head in memory. Each field counts as in RFC 9113,
// section 6.5.2: HPACK lets clients send a field as one byte, and a head of a megabyte as 30 KB.
func headSize(req *http.Request) int64 {
	size := len(req.RequestURI)
	for name, values := range req.Header {
		for _, value := range values {
			size += len(name) + len(value) + 32
		}
	}
	return int64(size)
}

// owner returns the owner whose seats a user's long-running requests take. The service accounts of
// a namespace share one owner, because users who may create service accounts can create any number
// of them.
func owner(name string) string {
	if namespace, _, err := serviceaccount.SplitUsername(name); err == nil {
		return serviceaccount.MakeNamespaceGroupName(namespace)
	}
	return name
}

// limited bounds how many requests execute at once. Flow control decides about short requests, and
// about watches until they have sent their initial events. Without flow control, short requests
// beyond a fixed number get 429. Long-running requests are limited by user as well.
func (c *Chain) limited(next http.Handler) http.Handler {
	short, watch := c.inFlight(next), next
	if c.cfg.FlowControl != nil {
		short, watch = c.flowControlled(next), c.watching(next)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		call := callOf(req)
		switch {
		case exempt(call.info):
			c.classify(w, req)
			next.ServeHTTP(w, req)
			return
		case !call.longRunning:
			short.ServeHTTP(w, req)
			return
		}
		name, seats := owner(userName(req)), 1+int(headSize(req)/headPerSeat)
		if c.longRunning.take(name, seats) {
			defer c.longRunning.leave(name, seats)
		} else if !privileged(req) {
			refuse(w)
			return
		}
		if call.info.Verb == "watch" {
			watch.ServeHTTP(w, req)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// inFlight rejects short requests beyond MaxInFlight and MaxMutatingInFlight. It accepts those of
// administrators, who may need them to stop other clients.
func (c *Chain) inFlight(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		kind := c.kindOf(callOf(req).info)
		if kind.take() {
			c.seated(w, req, kind, next)
			return
		}
		if !privileged(req) {
			refuse(w)
			return
		}
		next.ServeHTTP(w, req)
	})
}

func (c *Chain) kindOf(info *request.RequestInfo) *seats {
	if resource.ReadOnly(info.Verb) {
		return &c.reading
	}
	return &c.mutating
}

func refuse(w http.ResponseWriter) { refuseAfter(w, "1") }

func refuseAfter(w http.ResponseWriter, seconds string) {
	w.Header().Set("Retry-After", seconds)
	http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
}

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
