package disk

import (
	"fmt"

	"kelson.dev/apiserver/store"
)

// Report says what a data directory has.
type Report struct {
	// Revision is the newest.
	Revision uint64
	// State is the revision of the newest state that was written as a whole, and StateBytes its size; 0 without one.
	State      uint64
	StateBytes int64
	// Logs is how many logs there are since, Batches how many units of writes are in them, and LogBytes their size.
	Logs     int
	Batches  int
	LogBytes int64
	Objects  int
	// Torn is the number of bytes at the end that a crash left unfinished. The next start cuts them off.
	Torn int64
	// Acknowledged is the newest revision of which it is known that it was acknowledged; more than Revision when acknowledged writes are missing.
	Acknowledged uint64
	missing      string
}

// Missing is at least how many acknowledged revisions are not in the directory any more.
func (r Report) Missing() uint64 { return max(r.Acknowledged, r.Revision) - r.Revision }

// Check reads a data directory whole and says what is in it, or what is wrong with it. It changes nothing. [store.ErrLocked] when a
// Backend has it open.
func Check(dir string) (r Report, err error) { return CheckWith(dir, nil) }

// CheckWith is Check of a directory whose records decode makes readable first; nil: they are.
func CheckWith(dir string, decode func(*store.Record) error) (r Report, err error) {
	files := osFiles{}
	l, err := list(files, dir)
	if err != nil {
		return r, err
	}
	if _, err := files.Open(join(dir, lockName)); err != nil && len(l.states)+len(l.logs) == 0 {
		return r, fmt.Errorf("%s is no data directory: %w", dir, err)
	}
	lock, err := files.Lock(join(dir, lockName))
	if err != nil {
		return r, fmt.Errorf("data directory %s: %w", dir, err)
	}
	defer lock.Close()
	uids := map[string]store.Key{}
	f, err := l.read(func(rec store.Record) error {
		if decode != nil && rec.Data != nil {
			if err := decode(&rec); err != nil {
				return err
			}
		}
		uid, err := store.CheckRecord(rec)
		if err != nil || uid == "" {
			return err
		}
		if other, twice := uids[uid]; twice {
			return fmt.Errorf("%v and %v have the uid %s", other, rec.Key, uid)
		}
		uids[uid] = rec.Key
		return nil
	})
	if err != nil {
		return r, fmt.Errorf("read %s: %w", dir, err)
	}
	last, err := readMark(files, dir)
	if err != nil {
		return r, err
	}
	r = Report{Revision: f.revision, State: f.state, StateBytes: f.stateSize, Logs: len(f.logs), LogBytes: f.logged, Objects: f.objects,
		Acknowledged: last.revision, missing: last.missing(f.revision)}
	for _, c := range f.logs {
		r.Batches += c.frames
		r.Torn += c.torn
	}
	return r, nil
}

// String is for people.
func (r Report) String() string {
	begin := "sound: "
	if r.missing != "" {
		begin = r.missing + "; what is there is sound: "
	}
	s := begin + fmt.Sprintf("%d objects at revision %d", r.Objects, r.Revision)
	if r.StateBytes > 0 {
		s += fmt.Sprintf("; state at revision %d, %d bytes", r.State, r.StateBytes)
	}
	s += fmt.Sprintf("; %d logs since, %d units of writes, %d bytes", r.Logs, r.Batches, r.LogBytes)
	if r.Torn > 0 {
		s += fmt.Sprintf("; %d unfinished bytes of a crash at the end, which the next start cuts off", r.Torn)
	}
	return s
}
