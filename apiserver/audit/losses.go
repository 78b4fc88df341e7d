package audit

import (
	"log/slog"
	"sync"
)

// losses logs when events begin to be lost and when they are stored again.
type losses struct {
	of  string // what loses events
	log *slog.Logger

	mu   sync.Mutex
	lost int // since events were last stored
}

// note notes that n events are stored, or lost if err is not nil.
func (l *losses) note(n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		if l.lost == 0 {
			l.log.Error("write "+l.of+": events are lost", "err", err)
		}
		l.lost += n
	case l.lost > 0:
		l.log.Warn(l.of+" is writable again", "lost", l.lost)
		l.lost = 0
	}
}
