package filters

import (
	"cmp"
	"context"
	"sync"
	"time"
)

// Bodies bounds the memory that request bodies need, as estimated by wire.Need: their bytes and the
// memory that decoding them allocates. All values are in bytes; 0 means the default, a negative
// value no limit.
type Bodies struct {
	// Total is for all requests together; the default is 512 MiB. One request may need up to half
	// of it.
	Total int64
	// PerUser is for all requests of a user; the default is a quarter of Total. A request that
	// needs more is served only while the user has no other request.
	PerUser int64
}

const defaultBodies = 512 << 20

// small is the largest need of a request that does not wait behind larger ones.
const small = 1 << 20

// limits returns the limits for bodies that arrive and for bodies that are decoded.
func (b Bodies) limits() (arriving, decoding Bodies) {
	b.Total = cmp.Or(b.Total, defaultBodies)
	b.PerUser = cmp.Or(b.PerUser, b.Total/4)
	return Bodies{Total: b.Total / 2, PerUser: b.PerUser / 2}, b
}

// budget is an amount of memory that requests share. It is safe for concurrent use.
type budget struct {
	total, perUser int64 // negative: no limit

	mu     sync.Mutex
	used   int64
	users  map[string]int64
	queued []*waiting // in order of arrival
}

// waiting is a request that waits for its share.
type waiting struct {
	user    string
	need    int64
	granted chan struct{} // closed when the share is granted
}

func (b *budget) limit(l Bodies) {
	b.total, b.perUser, b.users = l.Total, l.PerUser, map[string]int64{}
}

// most returns how much one request may need; negative: no limit.
func (b *budget) most() int64 { return b.total / 2 }

// tryTake takes a share if one is free, and reports whether it did.
func (b *budget) tryTake(user string, need int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	ok := b.fitsUser(user, need) && b.fits(need)
	if ok {
		b.add(user, need)
	}
	return ok
}

// force takes a share even beyond the limits.
func (b *budget) force(user string, need int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(user, need)
}

// take waits for a share until patience has passed or ctx ends. It reports whether it got one.
//
// Requests get shares in the order of arrival, with two exceptions: requests that wait for their
// user's limit do not block those of other users, and small requests do not wait for large ones.
func (b *budget) take(ctx context.Context, user string, need int64, patience time.Duration) bool {
	b.mu.Lock()
	if (len(b.queued) == 0 || need <= small) && b.fitsUser(user, need) && b.fits(need) {
		b.add(user, need)
		b.mu.Unlock()
		return true
	}
	w := &waiting{user: user, need: need, granted: make(chan struct{})}
	b.queued = append(b.queued, w)
	b.grant() // all others in the queue may wait for their users' limits
	b.mu.Unlock()

	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.granted:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.granted: // granted before the lock was taken
		return true
	default:
	}
	for i, q := range b.queued {
		if q == w {
			b.queued = append(b.queued[:i], b.queued[i+1:]...)
			break
		}
	}
	b.grant()
	return false
}

// give returns a share.
func (b *budget) give(user string, need int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= need
	if left := b.users[user] - need; left > 0 {
		b.users[user] = left
	} else {
		delete(b.users, user)
	}
	b.grant()
}

// grant gives shares to waiting requests. The caller holds mu.
func (b *budget) grant() {
	kept := b.queued[:0]
	full := false // a request waits for the total: large ones behind it must wait too
	for _, w := range b.queued {
		fits := b.fits(w.need)
		if !fits || full && w.need > small || !b.fitsUser(w.user, w.need) {
			kept = append(kept, w)
			full = full || !fits && b.fitsUser(w.user, w.need)
			continue
		}
		b.add(w.user, w.need)
		close(w.granted)
	}
	clear(b.queued[len(kept):])
	b.queued = kept
}

func (b *budget) fits(need int64) bool {
	return b.total < 0 || need == 0 || b.used+need <= b.total
}

// fitsUser reports whether need is within the user's limit. A user's only request may exceed the
// limit.
func (b *budget) fitsUser(user string, need int64) bool {
	if b.total < 0 || b.perUser < 0 {
		return true
	}
	used := b.users[user]
	return used == 0 || used+need <= b.perUser
}

func (b *budget) add(user string, need int64) {
	b.used += need
	b.users[user] += need
}
