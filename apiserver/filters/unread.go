package filters

import (
	"net/http"
	"sync/atomic"

	"kelson.dev/apiserver/flowcontrol"
)

// mostUnread is the maximum number of responses without seats of a user. It limits the memory of
// responses that clients do not read: when a user has reached it, the user's other requests get
// 429. Requests that already execute can exceed it.
const mostUnread = 50

// unread counts, for each user, the responses that wait for their clients and have released their
// seats.
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

// seat is what a short request holds while it executes: a place in flight and the seats of flow
// control, if any. A request whose client does not read the response releases them, because it only
// waits for the client.
type seat struct {
	unread *unread
	user   string
	kind   *seats
	ticket *flowcontrol.Ticket
	given  bool // released before the end
}

// seated serves a request that holds its seats, and releases them.
func (c *Chain) seated(w http.ResponseWriter, req *http.Request, kind *seats, next http.Handler) {
	call := callOf(req)
	call.seat = seat{unread: &c.unread, user: userName(req), kind: kind, ticket: &call.ticket}
	defer call.seat.end()
	if c.unread.full(call.seat.user) && !privileged(req) {
		refuse(w)
		return
	}
	call.answer.seat = &call.seat
	defer call.answer.done() // from here on, giveUp is not called
	next.ServeHTTP(w, req)
}

// giveUp releases the seats before the end. It is called at most once, and not after recorder.done.
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
