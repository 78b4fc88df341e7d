package history

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"kelson.dev/apiserver/store/filelock"
)

// ErrInUse means that another process writes a history.
var ErrInUse = errors.New("in use by another recorder")

// Resume returns a Writer that continues the history in a file, which must be open for reading and
// writing. It removes an incomplete frame from the end, and locks the file until it is closed:
// [ErrInUse] means that another process has the lock. In an empty file, it begins a history.
//
// Versions that the history already has are ignored by Put, so a recorder can begin with the
// current state.
func Resume(f *os.File) (*Writer, error) {
	if err := filelock.Exclusive(f); err != nil {
		if errors.Is(err, filelock.ErrLocked) {
			err = ErrInUse
		}
		return nil, fmt.Errorf("resume %s: %w", f.Name(), err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 {
		return NewWriter(f)
	}
	h := newHistory()
	if err := h.read(f, info.Size()); err != nil {
		return nil, fmt.Errorf("resume %s: %w", f.Name(), err)
	}
	end := h.files[0].end
	if end < info.Size() {
		if err := f.Truncate(end); err != nil {
			return nil, fmt.Errorf("resume %s: %w", f.Name(), err)
		}
	}
	if _, err := f.Seek(end, io.SeekStart); err != nil {
		return nil, err
	}
	return h.writer(f)
}

// writer returns a Writer that continues a history of one file. It keeps one content per resource
// in memory, as dictionary for the next version of each object.
func (h *History) writer(to io.Writer) (*Writer, error) {
	p := h.files[0]
	w := &Writer{to: to, resources: map[string]*resourceWriter{}, described: map[string]Resource{},
		objects: map[Key]*objectWriter{}, time: p.time, versions: uint64(len(h.contents)), newest: h.newest,
		began: h.startTime}
	for i, name := range p.names {
		w.resources[name] = &resourceWriter{number: uint64(i)}
	}
	for _, r := range h.resources {
		w.described[r.Name()] = r
	}
	first := map[string]int32{}
	for i, number := range p.objects {
		key := h.keys[number]
		o := &objectWriter{number: uint64(i), chain: maxChain}
		w.objects[key] = o
		timeline := h.timelines[number]
		for _, e := range timeline {
			if index, ok := first[key.Resource]; e.content >= 0 && (!ok || e.content < index) {
				first[key.Resource] = e.content
			}
		}
		if n := len(timeline); n > 0 {
			last := timeline[n-1]
			o.revision, o.time, o.deleted = last.revision, last.time, last.content < 0
		}
	}
	for resource, index := range first {
		data, err := h.content(index)
		if err != nil {
			return nil, err
		}
		r := w.resources[resource]
		r.first, r.index = data, uint64(index)
	}
	return w, nil
}

// Newest returns the newest revision and its time; zero for an empty history.
func (w *Writer) Newest() (revision uint64, t time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.newest, time.Unix(0, w.time)
}
