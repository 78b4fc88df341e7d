package filters

import (
	"net/http"
	"sync/atomic"

	"kelson.dev/apiserver/flowcontrol"
)

// mostUnread is how many responses without seats a user may have. It bounds the memory of responses that clients do not read: while a user
// has as many, its other requests get 429. Those that are executing by then may add theirs.
const mostUnread = 50

// unread counts the responses of each user that wait for their clients and have given up their seats.
type unread struct {
	total  atomic.Int64
	byUser seatsByUser
}

// full reports whether a user has too many.
func (u *unread) full(name string) bool {
	return u.total.Load() >= mostUnread && u.byUser.full(owner(name))
}

func (u *unread) add(name string) {
	u.total.Add(1)
	u.byUser.force(owner(name))
}

func (u *unread) remove(name string) {
	u.total.Add(-1)
	u.byUser.leave(owner(name))
}

// seat is what a short request takes while it executes: a place in flight, and flow control's seats, if there is any. A request whose client
// does not read the response gives them up: it waits for the client and needs no processor.
type seat struct {
	unread *unread
	user   string
	kind   *seats
	ticket *flowcontrol.Ticket
	given  bool // up, before the end
}

// seated serves a request that has its seats, and gives them back.
func (c *Chain) seated(w http.ResponseWriter, req *http.Request, kind *seats, next http.Handler) {
	call := callOf(req)
	call.seat = seat{unread: &c.unread, user: userName(req), kind: kind, ticket: &call.ticket}
	defer call.seat.end()
	if c.unread.full(call.seat.user) && !privileged(req) {
		refuse(w)
		return
	}
	call.answer.seat = &call.seat
	defer call.answer.done() // then the seats are not given up any more
	next.ServeHTTP(w, req)
}

// giveUp is called at most once, and not after recorder.done.
func (s *seat) giveUp() {
	s.given = true
	s.unread.add(s.user)
	s.free()
}

func (s *seat) end() {
	if s.given {
		s.unread.remove(s.user)
		return
	}
	s.free()
}

func (s *seat) free() {
	s.kind.leave()
	s.ticket.Release()
}
