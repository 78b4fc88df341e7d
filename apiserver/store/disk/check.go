package disk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
	"kelson.dev/apiserver/store/filelock"
)

// Report describes the content of a data directory.
type Report struct {
	// Revision is the newest stored revision.
	Revision uint64
	// State is the revision of the newest complete state, and StateBytes its size; 0 if there is
	// none.
	State      uint64
	StateBytes int64
	// Logs is the number of logs since the state, Batches the number of write batches in them, and
	// LogBytes their size.
	Logs     int
	Batches  int
	LogBytes int64
	Objects  int
	// Torn is the number of bytes that a crash left incomplete at the end. The next start removes
	// them.
	Torn int64
	// Acknowledged is the newest revision known to be acknowledged. It is greater than Revision if
	// acknowledged writes are missing.
	Acknowledged uint64
	missing      string
	// Excessive are the objects that exceed store.MaxObject or store.MaxDepth. Earlier versions
	// stored such objects.
	Excessive []Excessive
}

// Excessive is an object that exceeds a limit of a store.
type Excessive struct {
	Key   store.Key
	Kind  string // "" if it is unknown
	Bytes int
}

func (e Excessive) String() string {
	return (&archive.RecordError{Key: e.Key, Kind: e.Kind, Err: fmt.Errorf("%d bytes", e.Bytes)}).Error()
}

// kindOf returns the kind of an object, or "".
func kindOf(data []byte) string {
	var object struct{ Kind string }
	_ = json.Unmarshal(data, &object) // sets what it has read before an error
	return object.Kind
}

// Missing returns the minimum number of acknowledged revisions that the directory no longer has.
func (r Report) Missing() uint64 { return max(r.Acknowledged, r.Revision) - r.Revision }

// Check reads and verifies a whole data directory. It returns a description, or an error that names
// the damage. It changes nothing. It returns [store.ErrLocked] if a Backend has the directory open.
func Check(dir string) (r Report, err error) { return CheckWith(dir, nil) }

// CheckWith is like Check, for directories with encrypted records: it calls decode, unless it is
// nil, to decrypt each record first.
func CheckWith(dir string, decode func(*store.Record) error) (r Report, err error) {
	files := osFiles{}
	l, err := list(files, dir)
	if err != nil {
		return r, err
	}
	if _, err := os.Stat(join(dir, oldFile)); err == nil && len(l.states) == 0 {
		return r, fmt.Errorf("%s has the first format: the next start of a server converts it", dir)
	}
	lock, err := lockToRead(join(dir, lockName))
	switch {
	case err == nil:
		defer lock.Close()
	case !errors.Is(err, errNotExist):
		return r, fmt.Errorf("data directory %s: %w", dir, err)
	case len(l.states)+len(l.logs) == 0:
		return r, fmt.Errorf("%s is not a data directory: %w", dir, err)
	}
	uids := map[string]store.Key{}
	var excessive []Excessive
	f, err := l.read(func(rec store.Record) error {
		if decode != nil && rec.Data != nil {
			if err := decode(&rec); err != nil {
				return &archive.RecordError{Key: rec.Key, Err: err}
			}
		}
		uid, err := store.CheckRecord(rec)
		if err != nil {
			return &archive.RecordError{Key: rec.Key, Kind: kindOf(rec.Data), Err: err}
		}
		if store.CheckSize(rec.Key, rec.Data) != nil {
			excessive = append(excessive, Excessive{rec.Key, kindOf(rec.Data), len(rec.Data)})
		}
		if uid == "" {
			return nil
		}
		if other, twice := uids[uid]; twice {
			return &archive.RecordError{Key: rec.Key, Kind: kindOf(rec.Data),
				Err: fmt.Errorf("%v has the same uid %s", other, uid)}
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
	if len(l.states)+len(l.logs) == 0 && last.revision == 0 {
		return r, fmt.Errorf("%s has no state: a restore was interrupted, or its server has not written anything", dir)
	}
	r = Report{Revision: f.revision, State: f.state, StateBytes: f.stateSize, Logs: len(f.logs), LogBytes: f.logged,
		Objects:      f.objects,
		Acknowledged: last.revision, missing: last.missing(f.revision), Excessive: excessive}
	for _, c := range f.logs {
		r.Batches += c.frames
		r.Torn += c.torn
	}
	return r, nil
}

// lockToRead locks a file that must exist, so that no Backend opens the directory. It works on
// read-only file systems, too.
func lockToRead(name string) (io.Closer, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	return locked(f, filelock.Shared(f))
}

// String describes the report in one line.
func (r Report) String() string {
	begin := "sound: "
	if r.missing != "" {
		begin = r.missing + "; the rest is intact: "
	}
	s := begin + fmt.Sprintf("%d objects at revision %d", r.Objects, r.Revision)
	if r.StateBytes > 0 {
		s += fmt.Sprintf("; state at revision %d, %d bytes", r.State, r.StateBytes)
	}
	s += fmt.Sprintf("; %d logs since, %d write batches, %d bytes", r.Logs, r.Batches, r.LogBytes)
	if r.Torn > 0 {
		s += fmt.Sprintf("; %d bytes of an incomplete write at the end, which the next start removes", r.Torn)
	}
	for _, e := range r.Excessive[:min(len(r.Excessive), 10)] {
		s += fmt.Sprintf("\nlarger or deeper than the server now accepts: %s", e)
	}
	return s
}
