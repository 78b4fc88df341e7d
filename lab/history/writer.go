package history

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/s2"
)

// Writer appends versions to a history. Its methods are safe for concurrent use.
//
// A Writer keeps the newest version of every object in memory, because it stores the next version
// as a difference from it.
type Writer struct {
	mu        sync.Mutex
	to        io.Writer
	frame     []byte
	err       error // of the first failed write, after which the Writer writes nothing
	resources map[string]*resourceWriter
	described map[string]Resource
	objects   map[Key]*objectWriter
	time      int64  // of the newest version, in ns
	versions  uint64 // number of versions written, without deletions
	newest    uint64 // revision
	began     int64  // time of Start, in ns
	keeps     bool   // Put keeps its data, which never changes
	deltas    deltas
}

type resourceWriter struct {
	number uint64
	first  []byte // the first version; nil: no version yet
	index  uint64 // number of the version in data
}

type objectWriter struct {
	number   uint64
	revision uint64
	time     int64 // of the newest version, in ns
	deleted  bool
	data     []byte // of the newest version; nil: not in memory
	index    uint64 // its number
	chain    int    // versions to decode to read it; maxChain: not a dictionary
}

// NewWriter begins a history. The caller calls Flush before it closes the file.
func NewWriter(to io.Writer) (*Writer, error) {
	header := binary.LittleEndian.AppendUint32([]byte(fileTag), formatVersion)
	if _, err := to.Write(header); err != nil {
		return nil, fmt.Errorf("begin history: %w", err)
	}
	return &Writer{to: to, resources: map[string]*resourceWriter{}, described: map[string]Resource{},
		objects: map[Key]*objectWriter{}}, nil
}

// Resource declares a resource. It must be called before Put and Delete of its objects; repeated
// calls have no effect.
func (w *Writer) Resource(r Resource) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.resources[r.Name()] != nil {
		return w.err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	w.resources[r.Name()] = &resourceWriter{number: uint64(len(w.resources))}
	w.described[r.Name()] = r
	w.frame = append(w.frame, recordResource)
	w.frame = appendBytes(w.frame, data)
	return w.full()
}

// Start declares that the versions so far are the whole state at a revision and time, and that all
// later ones follow.
func (w *Writer) Start(revision uint64, when time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := max(when.UnixNano(), w.time)
	w.frame = append(w.frame, recordStart)
	w.frame = binary.AppendUvarint(w.frame, revision)
	w.frame = binary.AppendUvarint(w.frame, uint64(now-w.time))
	w.time, w.began, w.newest = now, now, max(w.newest, revision)
	return w.full()
}

// Put appends a version of an object. Data is its JSON; Put does not keep it. A version whose
// revision is not greater than that of the object's newest version is ignored, so that a recorder
// can list again after it lost a watch.
func (w *Writer) Put(key Key, revision uint64, when time.Time, data []byte) error {
	data = bytes.TrimSpace(data) // encoders add a line end, which would split an event of a watch
	w.mu.Lock()
	defer w.mu.Unlock()
	r, o, err := w.object(key)
	if err != nil || revision <= o.revision {
		return err
	}
	base, chain := uint64(0), 1
	var dict []byte
	switch {
	case len(o.data) > 0 && o.chain < maxChain:
		dict = o.data
		base, chain = w.versions-o.index, o.chain+1
	case r.first != nil:
		dict = r.first
		base, chain = w.versions-r.index, 2
	}
	content := w.deltas.encode(dict, data)
	if content == nil {
		base, chain, content = 0, 1, s2.Encode(nil, data)
	}
	if r.first == nil {
		r.first, r.index = bytes.Clone(data), w.versions
	}
	w.head(recordVersion, o, revision, when)
	w.frame = binary.AppendUvarint(w.frame, base)
	w.frame = appendBytes(w.frame, content)
	if w.keeps {
		o.data = data
	} else {
		o.data = append(o.data[:0], data...)
	}
	o.index, o.chain, o.deleted = w.versions, chain, false
	w.versions++
	return w.full()
}

// Delete appends the deletion of an object. The deletion of an object that does not exist, or that
// has a newer version, is ignored.
func (w *Writer) Delete(key Key, revision uint64, when time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := w.objects[key]; o == nil || o.deleted || revision <= o.revision {
		return w.err
	}
	_, o, err := w.object(key)
	if err != nil {
		return err
	}
	w.head(recordDeletion, o, revision, when)
	o.deleted, o.data = true, nil
	return w.full()
}

// Recorded returns the numbers of objects in the history, including deleted ones, and of versions,
// without deletions.
func (w *Writer) Recorded() (objects int, versions uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.objects), w.versions
}

// Existing returns the keys of a resource's objects that exist after the newest version. A recorder
// that lists again uses it to find the objects that were deleted since the last list.
func (w *Writer) Existing(resource string) []Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	var keys []Key
	for key, o := range w.objects {
		if key.Resource == resource && !o.deleted {
			keys = append(keys, key)
		}
	}
	return keys
}

// newestOf returns the revision of an object's newest version, and whether the object exists.
func (w *Writer) newestOf(key Key) (revision uint64, exists bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := w.objects[key]; o != nil {
		return o.revision, !o.deleted
	}
	return 0, false
}

// Flush writes everything that was appended. It does not sync the file.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

// object returns the state of an object and declares the object if it is new.
func (w *Writer) object(key Key) (*resourceWriter, *objectWriter, error) {
	r := w.resources[key.Resource]
	if r == nil {
		return nil, nil, fmt.Errorf("record %v: its resource was not declared", key)
	}
	o := w.objects[key]
	if o == nil {
		o = &objectWriter{number: uint64(len(w.objects))}
		w.objects[key] = o
		w.frame = append(w.frame, recordObject)
		w.frame = binary.AppendUvarint(w.frame, r.number)
		w.frame = appendBytes(w.frame, []byte(key.Namespace))
		w.frame = appendBytes(w.frame, []byte(key.Name))
	}
	return r, o, w.err
}

// head appends the fields that versions and deletions have in common.
func (w *Writer) head(kind byte, o *objectWriter, revision uint64, when time.Time) {
	now := max(when.UnixNano(), w.time)
	w.frame = append(w.frame, kind)
	w.frame = binary.AppendUvarint(w.frame, o.number)
	w.frame = binary.AppendUvarint(w.frame, revision)
	w.frame = binary.AppendUvarint(w.frame, uint64(now-w.time))
	w.time, o.time, o.revision, w.newest = now, now, revision, max(w.newest, revision)
}

// full ends the frame if it is large enough.
func (w *Writer) full() error {
	if len(w.frame) < frameSize {
		return w.err
	}
	return w.flush()
}

func (w *Writer) flush() error {
	if w.err != nil || len(w.frame) == 0 {
		return w.err
	}
	head := binary.LittleEndian.AppendUint32([]byte(frameTag), uint32(len(w.frame)))
	head = binary.LittleEndian.AppendUint32(head, sum(w.frame))
	// Use one write, so that a crash leaves an incomplete frame only at the end.
	if _, err := w.to.Write(append(head, w.frame...)); err != nil {
		w.err = fmt.Errorf("write history: %w", err)
	}
	w.frame = w.frame[:0]
	return w.err
}

func appendBytes(to, b []byte) []byte {
	return append(binary.AppendUvarint(to, uint64(len(b))), b...)
}
