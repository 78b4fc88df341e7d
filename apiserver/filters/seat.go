package filters

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"kelson.dev/apiserver/flowcontrol"
)

// serverPatience is how long a request keeps its seats while it waits for another server. Most
// webhooks answer earlier.
const serverPatience = 5 * time.Millisecond

// maxWaiting is the maximum number of a user's requests that have released their seats because
// they wait for another server. When a user has reached it, the user's other requests get 429. It
// is kube-apiserver's default for all writes in flight. Requests that already execute can exceed
// it.
const maxWaiting = 200

// maxUnread is the maximum number of a user's requests that have released their seats because the
// client does not read the response. It limits the memory of such responses. Beyond it, the user's
// other requests get 429, too.
const maxUnread = 50

// released counts, for each user, the requests that have released their seats for one reason.
type released struct {
	most   int64 // limit for each user
	total  atomic.Int64
	byUser seatsByUser
}

func (r *released) bound(most int) {
	r.most = int64(most)
	r.byUser.bound(most, most)
}

// full reports whether a user has too many.
func (r *released) full(name string) bool {
	return r.total.Load() >= r.most && r.byUser.full(owner(name))
}

func (r *released) add(name string) {
	r.total.Add(1)
	r.byUser.force(owner(name))
}

func (r *released) remove(name string) {
	r.total.Add(-1)
	r.byUser.leave(owner(name), 1)
}

// seat holds the limited resources of a short request that executes: a place in flight and the
// seats of flow control, if any. A request releases them early when it only waits for its client to
// read the response, or for another server.
type seat struct {
	unread, waiting *released
	user            string
	kind            *seats
	ticket          *flowcontrol.Ticket

	mu   sync.Mutex
	held bool      // not released
	in   *released // counts the request after an early release
}

// seated serves a request that holds its seats, and releases them.
func (c *Chain) seated(w http.ResponseWriter, req *http.Request, kind *seats, next http.Handler) {
	call := callOf(req)
	s := &call.seat
	s.unread, s.waiting, s.user, s.kind, s.ticket, s.held = &c.unread, &c.waiting, userName(req), kind, &call.ticket,
		true
	defer s.end()
	if (c.unread.full(s.user) || c.waiting.full(s.user)) && !privileged(req) {
		refuse(w)
		return
	}
	call.answer.seat = s
	defer call.answer.done() // from here on, giveUp is not called
	next.ServeHTTP(w, req)
}

// giveUp releases the seats because the client does not read the response.
func (s *seat) giveUp() { s.release(s.unread) }

// Wait implements [flowcontrol.Waiter].
func (s *seat) Wait() (end func()) {
	timer := time.AfterFunc(serverPatience, func() { s.release(s.waiting) })
	return func() { timer.Stop() }
}

// initializing is a watch that has not sent its initial events. It holds only flow control seats;
// another limit bounds the number of a user's watches.
type initializing struct{ ticket *flowcontrol.Ticket }

// Wait implements [flowcontrol.Waiter].
func (i initializing) Wait() (end func()) {
	timer := time.AfterFunc(serverPatience, i.ticket.Release)
	return func() { timer.Stop() }
}

// release releases the seats before the end of the request. From then on, in counts the request. It
// does nothing if the seats are already released.
func (s *seat) release(in *released) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held {
		s.held, s.in = false, in
		in.add(s.user)
		s.free()
	}
}

func (s *seat) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held {
		s.held = false
		s.free()
	} else if s.in != nil {
		s.in.remove(s.user)
		s.in = nil
	}
}

func (s *seat) free() {
	s.kind.leave()
	s.ticket.Release()
}
