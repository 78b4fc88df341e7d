package audit

import (
	"errors"
	"log/slog"
	"sync/atomic"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/plugin/pkg/audit/buffered"
)

// maxPending is how many bytes the events that a backend has accepted and not stored may have,
// unless it is one event. The buffer limits only their number, and batches that a server does not
// answer are not in the buffer.
const maxPending = 64 << 20

// eventSize is the memory of an event without its objects.
const eventSize = 2 << 10

// pending limits the events that wait in mode batch. More events are lost.
//
//	events ─▶ pending ─▶ buffer ─▶ batches ─▶ stored ─▶ backend
//	          count +   ───────────────────▶ count −
//	          bytes +   ─────────────────────────────▶ bytes −
type pending struct {
	audit.Backend // the buffer
	counts        *counts
}

type counts struct {
	maxQueued     int64
	maxBytes      int64
	queued, bytes atomic.Int64
	losses        losses
}

// stored is the backend of the buffer.
type stored struct {
	audit.Backend
	counts *counts
}

// newPending adds a buffer to a backend. maxBytes limits the bytes that are not stored.
func newPending(backend audit.Backend, cfg buffered.BatchConfig, maxBytes int64, log *slog.Logger) audit.Backend {
	c := &counts{maxQueued: int64(cfg.BufferSize), maxBytes: maxBytes, losses: losses{of: "audit buffer", log: log}}
	return pending{buffered.NewBackend(stored{backend, c}, cfg), c}
}

var errFull = errors.New("too many events wait to be stored")

// ProcessEvents implements audit.Sink. It returns true for events that are lost, as in
// kube-apiserver.
func (p pending) ProcessEvents(events ...*auditinternal.Event) bool {
	for _, e := range events {
		// queued is at least the number of events in the buffer, so the buffer drops none.
		own := size(e)
		queued, bytes := p.counts.queued.Add(1), p.counts.bytes.Add(own)
		if queued > p.counts.maxQueued || bytes > p.counts.maxBytes && bytes > own {
			p.counts.queued.Add(-1)
			p.counts.bytes.Add(-own)
			p.counts.losses.note(1, errFull)
			audit.HandlePluginError(p.String(), errFull, e)
			continue
		}
		p.Backend.ProcessEvents(e)
	}
	return true
}

// ProcessEvents implements audit.Sink.
func (s stored) ProcessEvents(events ...*auditinternal.Event) bool {
	s.counts.queued.Add(-int64(len(events)))
	var bytes int64
	for _, e := range events {
		bytes += size(e)
	}
	ok := s.Backend.ProcessEvents(events...)
	if s.counts.bytes.Add(-bytes) == 0 {
		s.counts.losses.note(0, nil)
	}
	return ok
}

// size returns about how much memory an event needs.
func size(e *auditinternal.Event) int64 {
	n := eventSize + len(e.RequestURI) + len(e.UserAgent)
	for _, object := range []*runtime.Unknown{e.RequestObject, e.ResponseObject} {
		if object != nil {
			n += len(object.Raw)
		}
	}
	for _, user := range []*authenticationv1.UserInfo{&e.User, e.ImpersonatedUser} {
		if user == nil {
			continue
		}
		n += length(user.Groups)
		for key, values := range user.Extra {
			n += len(key) + length(values)
		}
	}
	for key, value := range e.Annotations {
		n += len(key) + len(value)
	}
	return int64(n)
}

func length(values []string) (n int) {
	for _, v := range values {
		n += len(v)
	}
	return n
}
