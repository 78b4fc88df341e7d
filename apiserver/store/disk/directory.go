package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
)

const (
	lockName    = "lock"
	logSuffix   = ".log"
	stateSuffix = ".state"
	newSuffix   = ".new" // suffix of files that are being written

	revisionDigits = 20 // so that names sort by revision
)

func fileName(revision uint64, suffix string) string {
	return fmt.Sprintf("%0*d%s", revisionDigits, revision, suffix)
}

func parseName(name, suffix string) (revision uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) != revisionDigits {
		return 0, false
	}
	revision, err := strconv.ParseUint(digits, 10, 64)
	return revision, err == nil
}

// listing is the content of a data directory, in the order of revisions.
type listing struct {
	fs         fileSystem
	dir        string
	states     []uint64
	logs       []uint64
	unfinished []string

	without *without // nil: read returns all objects
}

// without is an object that is left out when a directory is read.
type without struct {
	key    store.Key
	found  bool
	logged bool // the logs have a newer state than the state file
	// save gets each state of the object that is found; the last one is the newest.
	save func(data io.Reader) error
}

// leave reports whether a record of a log is left out.
func (w *without) leave(r store.Record) (bool, error) {
	if w == nil || r.Key != w.key {
		return false, nil
	}
	w.found, w.logged = true, true
	if r.Data == nil {
		return true, nil
	}
	return true, w.save(bytes.NewReader(r.Data))
}

// read reads a state file without the object.
func (w *without) read(in io.Reader, each func(store.Record) error) (uint64, error) {
	return archive.ReadWithout(in, w.key, func(data io.Reader) error {
		w.found = true
		if w.logged {
			return nil
		}
		return w.save(data)
	}, each)
}

func list(files fileSystem, dir string) (*listing, error) {
	names, err := files.List(dir)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	l := &listing{fs: files, dir: dir}
	for _, name := range names {
		if revision, ok := parseName(name, stateSuffix); ok {
			l.states = append(l.states, revision)
		} else if revision, ok := parseName(name, logSuffix); ok {
			l.logs = append(l.logs, revision)
		} else if strings.HasSuffix(name, newSuffix) {
			l.unfinished = append(l.unfinished, name)
		}
	}
	return l, nil
}

// found is the result of read.
type found struct {
	state     uint64 // the revision of the state; 0 without one
	stateSize int64
	revision  uint64 // the newest revision
	logged    int64
	objects   int
	logs      []logContent // the logs since the state
	torn      string       // the name of the log whose end is torn
	keep      int64        // its valid size
	cut       int64        // the bytes to remove from it
}

// read calls each with every stored record. It changes nothing.
func (l *listing) read(each func(store.Record) error) (f found, err error) {
	if n := len(l.states); n > 0 {
		f.state = l.states[n-1]
	}
	f.revision = f.state
	written, err := l.readLogs(&f)
	if err != nil {
		return f, err
	}
	yield := func(r store.Record) error {
		f.objects++
		return each(r)
	}
	if len(l.states) > 0 {
		// Records in the logs are newer.
		err := l.readState(f.state, &f.stateSize, func(r store.Record) error {
			if _, ok := written[r.Key]; ok {
				return nil
			}
			return yield(r)
		})
		if err != nil {
			return f, err
		}
	}
	for _, r := range written {
		if r.Data != nil {
			if err := yield(r); err != nil {
				return f, err
			}
		}
	}
	return f, nil
}

// readLogs returns the newest record of every key that was written since the state.
func (l *listing) readLogs(f *found) (map[store.Key]store.Record, error) {
	written := map[store.Key]store.Record{}
	for i, start := range l.logs {
		if start < f.state {
			continue // the state includes it
		}
		name := fileName(start, logSuffix)
		content, err := l.readLog(name, func(r store.Record) error {
			if left, err := l.without.leave(r); left || err != nil {
				return err
			}
			written[r.Key] = r
			return nil
		})
		if err != nil {
			return nil, err
		}
		whole := content.torn == 0
		switch {
		case content.size-content.torn > 0 && content.start != start:
			return nil, &damage{name, 0, fmt.Sprintf("its header says that it begins after revision %d", content.start)}
		case start != f.revision:
			return nil, fmt.Errorf("%w: %s begins after revision %d, but the files before it end at %d: a file is missing", archive.ErrDamaged, name, start, f.revision)
		case !whole && i < len(l.logs)-1:
			return nil, &damage{name, content.size - content.torn, "a frame is invalid, but another log follows"}
		case !whole:
			f.torn, f.keep, f.cut = name, content.size-content.torn, content.torn
		}
		if content.size-content.torn > 0 {
			f.revision = content.newest
		}
		f.logged += content.size - content.torn
		f.logs = append(f.logs, content)
	}
	return written, nil
}

func (l *listing) readLog(name string, each func(store.Record) error) (logContent, error) {
	r, err := l.fs.Open(join(l.dir, name))
	if err != nil {
		return logContent{}, err
	}
	defer r.Close()
	return readLog(r, name, each)
}

func (l *listing) readState(revision uint64, size *int64, each func(store.Record) error) error {
	name := fileName(revision, stateSuffix)
	r, err := l.fs.Open(join(l.dir, name))
	if err != nil {
		return err
	}
	defer r.Close()
	*size = r.Size()
	headerRevision, err := l.readRecords(r, each)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if headerRevision != revision {
		return &damage{name, 0, fmt.Sprintf("its header says that it is the state at revision %d", headerRevision)}
	}
	return nil
}

// readRecords reads the records of a state, and returns the revision in its header.
func (l *listing) readRecords(state reader, each func(store.Record) error) (revision uint64, err error) {
	stream := io.NewSectionReader(state, 0, state.Size())
	if l.without != nil {
		return l.without.read(stream, each)
	}
	if mapped := state.Map(); mapped != nil {
		defer forget(mapped)
		return archive.ReadBytes(mapped, each)
	}
	return archive.Read(stream, each)
}

// clean removes the files that a crash left and truncates a torn log.
func (l *listing) clean(f found, keepAfter func() uint64) error {
	for _, name := range l.unfinished {
		if err := l.fs.Remove(join(l.dir, name)); err != nil {
			return err
		}
	}
	if err := l.removeBefore(f.state, keepAfter); err != nil {
		return err
	}
	if f.torn != "" && f.keep > 0 {
		if err := l.fs.Truncate(join(l.dir, f.torn), f.keep); err != nil {
			return err
		}
	}
	// A log without a frame has the same name as the next one, which begins at the same revision.
	if start := f.revision; slices.Contains(l.logs, start) && start >= f.state {
		if err := l.fs.Remove(join(l.dir, fileName(start, logSuffix))); err != nil {
			return err
		}
	}
	return syncDir(l.fs, l.dir)
}

// removeBefore removes the files that a newer state replaces, except logs that Replay may need.
// Leftover files are harmless; removal errors are still returned.
func (l *listing) removeBefore(state uint64, keepAfter func() uint64) error {
	var errs []error
	for _, s := range l.states {
		if s < state {
			errs = append(errs, ignoreMissing(l.fs.Remove(join(l.dir, fileName(s, stateSuffix)))))
		}
	}
	for i, start := range l.logs {
		if keepAfter != nil && (i == len(l.logs)-1 || l.logs[i+1] > keepAfter()) {
			break
		}
		if start < state {
			errs = append(errs, ignoreMissing(l.fs.Remove(join(l.dir, fileName(start, logSuffix)))))
		}
	}
	return errors.Join(errs...)
}
