package disk

import (
	"fmt"
	"time"

	"kelson.dev/apiserver/store"
)

// Replay calls each for every write after a revision that the logs still have, in order, with the
// time of the last write to its log. It is called after Load and before Append. It reports whether
// the logs have all writes after that revision; see Options.KeepAfter.
func (b *Backend) Replay(after uint64, each func(store.Record, time.Time) error) (complete bool, err error) {
	if !b.loaded || b.log != nil {
		return false, fmt.Errorf("replay %s: %w", b.dir, errNotLoaded)
	}
	if after >= b.revision {
		return true, nil
	}
	l, err := list(b.fs, b.dir)
	if err != nil {
		return false, fmt.Errorf("replay %s: %w", b.dir, err)
	}
	for i, start := range l.logs {
		complete = complete || start <= after
		if i+1 < len(l.logs) && l.logs[i+1] <= after {
			continue
		}
		name := fileName(start, logSuffix)
		written, err := l.lastWritten(name)
		if err != nil {
			return false, fmt.Errorf("replay %s: %w", b.dir, err)
		}
		_, err = l.readLog(name, func(r store.Record) error {
			if r.Revision <= after {
				return nil
			}
			return each(r, written)
		})
		if err != nil {
			return false, fmt.Errorf("replay %s: %w", b.dir, err)
		}
	}
	return complete, nil
}

func (l *listing) lastWritten(name string) (time.Time, error) {
	r, err := l.fs.Open(join(l.dir, name))
	if err != nil {
		return time.Time{}, err
	}
	defer r.Close()
	return r.LastWritten(), nil
}
