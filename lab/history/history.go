package history

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// History is a file of versions, or several that continue each other. It keeps about 50 bytes per
// version in memory and reads contents from the files. All methods except Close are safe for
// concurrent use.
type History struct {
	files     []*part // in the order of revisions
	resources []Resource
	keys      []Key
	numbers   map[Key]int
	sorted    []int     // numbers of the objects in the order of their keys
	timelines [][]entry // by the number of the object, in the order of revisions
	contents  []content // by the number of the version
	newest    uint64    // revision
	last      int64     // time of the newest version
	first     int64     // time of the oldest version
	entries   int
	start     uint64 // revision of the start of the first file; 0 without one
	startTime int64
}

// part is one file of a history.
type part struct {
	file     io.ReaderAt
	close    func() error
	contents int   // index of its first one
	objects  []int // by the number of the object in the file: the number in the history
	names    []string
	time     int64 // of the newest version
	end      int64 // offset of the end of the last complete frame
}

type entry struct {
	revision uint64
	time     int64
	content  int32 // index in contents; -1: deleted
}

type content struct {
	at   int64
	size uint32
	base uint32 // distance to the version that is the dictionary; 0: none
}

// Open reads a history from a file, a directory that a [Retainer] writes, or the data directory
// that contains such a directory. The process that writes the history may be running; the result
// lacks versions that it has not written yet. The caller closes the History.
func Open(name string) (*History, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	h := newHistory()
	if info.IsDir() {
		err = h.openFolder(name)
	} else {
		err = h.open(name)
	}
	if err != nil {
		return nil, errors.Join(err, h.Close())
	}
	h.sort()
	return h, nil
}

func newHistory() *History { return &History{numbers: map[Key]int{}} }

// FolderOf returns the folder with the files of a history: dir, or the one in the data directory
// dir.
func FolderOf(dir string) string {
	inner := filepath.Join(dir, Folder)
	if info, err := os.Stat(inner); err == nil && info.IsDir() {
		return inner
	}
	return dir
}

func (h *History) openFolder(dir string) error {
	dir = FolderOf(dir)
	for range 10 {
		names, err := segments(dir)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			return fmt.Errorf("%s has no history: start its server with --history, for example kelson serve --history 24h", dir)
		}
		for _, name := range names {
			if err = h.open(name); err != nil {
				break
			}
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		// the oldest file was removed after the listing
		err = h.Close()
		*h = *newHistory()
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("read %s: its files are removed faster than they can be read", dir)
}

func (h *History) open(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		if err = h.read(f, info.Size()); err == nil {
			h.files[len(h.files)-1].close = f.Close
			return nil
		}
		err = fmt.Errorf("read %s: %w", name, err)
	}
	return errors.Join(err, f.Close())
}

// Read reads a history of a given size in bytes. The History continues to read from file.
func Read(file io.ReaderAt, size int64) (*History, error) {
	h := newHistory()
	if err := h.read(file, size); err != nil {
		return nil, err
	}
	h.sort()
	return h, nil
}

// read adds a file that continues the ones before it.
func (h *History) read(file io.ReaderAt, size int64) error {
	head := make([]byte, headerSize)
	if _, err := file.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if string(head[:len(fileTag)]) != fileTag {
		return fmt.Errorf("%w: not a history", ErrDamaged)
	}
	if v := binary.LittleEndian.Uint32(head[len(fileTag):]); v == 0 || v > formatVersion {
		return fmt.Errorf("%w: format version %d; this program reads versions up to %d", ErrDamaged, v, formatVersion)
	}
	p := &part{file: file, contents: len(h.contents), end: int64(headerSize)}
	h.files = append(h.files, p)
	var frame []byte
	for {
		n, ok, err := readFrame(file, p.end, size, &frame)
		if err != nil || !ok {
			return err
		}
		if err := h.index(p, &decoder{rest: frame, at: p.end + int64(frameHead)}); err != nil {
			return err
		}
		p.end += n
	}
}

func (h *History) sort() {
	h.sorted = make([]int, len(h.keys))
	for i := range h.sorted {
		h.sorted[i] = i
	}
	slices.SortFunc(h.sorted, func(i, j int) int {
		a, b := h.keys[i], h.keys[j]
		return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Name, b.Name))
	})
}

// readFrame reads the records of the frame at an offset. It returns false at the end of the file
// and at an incomplete frame there.
func readFrame(file io.ReaderAt, at, size int64, frame *[]byte) (n int64, ok bool, err error) {
	if size-at < int64(frameHead) {
		return 0, false, nil
	}
	var head [frameHead]byte
	if _, err := file.ReadAt(head[:], at); err != nil {
		return 0, false, err
	}
	length := int64(binary.LittleEndian.Uint32(head[len(frameTag):]))
	if string(head[:len(frameTag)]) != frameTag || length > maxFrame {
		return 0, false, fmt.Errorf("%w: no frame at offset %d", ErrDamaged, at)
	}
	n = int64(frameHead) + length
	if at+n > size {
		return 0, false, nil
	}
	*frame = slices.Grow((*frame)[:0], int(length))[:length]
	if _, err := file.ReadAt(*frame, at+int64(frameHead)); err != nil && !errors.Is(err, io.EOF) {
		return 0, false, err
	}
	if sum(*frame) != binary.LittleEndian.Uint32(head[len(frameTag)+4:]) {
		if at+n == size {
			return 0, false, nil // the last one, written partially
		}
		return 0, false, fmt.Errorf("%w: wrong checksum of the frame at offset %d", ErrDamaged, at)
	}
	return n, true, nil
}

// index adds the records of a frame.
func (h *History) index(p *part, d *decoder) error {
	for len(d.rest) > 0 && d.err == nil {
		kind := d.rest[0]
		d.skip(1)
		switch kind {
		case recordResource:
			var r Resource
			if err := json.Unmarshal(d.bytes(), &r); err != nil && d.err == nil {
				d.fail("invalid resource")
			}
			p.names = append(p.names, r.Name())
			if i := slices.IndexFunc(h.resources, func(known Resource) bool {
				return known.Name() == r.Name()
			}); i >= 0 {
				h.resources[i] = r
			} else {
				h.resources = append(h.resources, r)
			}
		case recordObject:
			h.addObject(p, d)
		case recordVersion, recordDeletion:
			h.addVersion(p, d, kind == recordDeletion)
		case recordStart:
			h.addStart(p, d)
		default:
			d.fail("unknown record")
		}
	}
	return d.err
}

func (h *History) addObject(p *part, d *decoder) {
	resource, namespace, name := d.uvarint(), string(d.bytes()), string(d.bytes())
	if resource >= uint64(len(p.names)) {
		d.fail("unknown resource")
		return
	}
	key := Key{p.names[resource], namespace, name}
	number, known := h.numbers[key]
	if !known {
		number = len(h.keys)
		h.numbers[key] = number
		h.keys = append(h.keys, key)
		h.timelines = append(h.timelines, nil)
	}
	p.objects = append(p.objects, number)
}

func (h *History) addStart(p *part, d *decoder) {
	revision := d.uvarint()
	p.time += int64(d.uvarint())
	h.newest, h.last = max(h.newest, revision), max(h.last, p.time)
	if p == h.files[0] && h.start == 0 {
		h.start, h.startTime = revision, p.time
	}
}

func (h *History) addVersion(p *part, d *decoder, deleted bool) {
	object, e := d.uvarint(), entry{revision: d.uvarint(), content: -1}
	p.time += int64(d.uvarint())
	e.time = p.time
	if object >= uint64(len(p.objects)) {
		d.fail("unknown object")
		return
	}
	if !deleted {
		base := d.uvarint()
		b := d.bytes()
		if base > uint64(len(h.contents)-p.contents) {
			d.fail("unknown base")
			return
		}
		e.content = int32(len(h.contents))
		h.contents = append(h.contents, content{at: d.at - int64(len(b)), size: uint32(len(b)), base: uint32(base)})
	}
	number := p.objects[object]
	timeline := h.timelines[number]
	if n := len(timeline); n > 0 && e.revision <= timeline[n-1].revision {
		return // the state at the beginning of this file repeats a version
	}
	if h.entries == 0 {
		h.first = e.time
	}
	h.entries++
	h.last, h.newest = max(h.last, e.time), max(h.newest, e.revision)
	h.timelines[number] = append(timeline, e)
}

// Close closes the files that Open opened.
func (h *History) Close() error {
	var errs []error
	for _, p := range h.files {
		if p.close != nil {
			errs = append(errs, p.close())
		}
	}
	return errors.Join(errs...)
}

// Len returns the number of versions, with deletions.
func (h *History) Len() int { return h.entries }

// Newest returns the newest revision; 0 if the history is empty.
func (h *History) Newest() uint64 { return h.newest }

// Start returns the revision and time from which the history is complete: it does not have states
// of earlier moments. It returns false for recordings, which do not contain this information.
func (h *History) Start() (revision uint64, t time.Time, ok bool) {
	if h.start == 0 {
		return 0, time.Time{}, false
	}
	return h.start, time.Unix(0, h.startTime), true
}

// Span returns the times of the oldest and the newest version; zero if the history is empty.
func (h *History) Span() (oldest, newest time.Time) {
	if h.entries == 0 {
		return time.Time{}, time.Time{}
	}
	return time.Unix(0, h.first), time.Unix(0, h.last)
}

// Resources returns the resources of the history in the order of their names.
func (h *History) Resources() []Resource {
	return slices.SortedFunc(slices.Values(h.resources), func(a, b Resource) int {
		return strings.Compare(a.Name(), b.Name())
	})
}

// Find returns the resources that a user's word can name: the plural or singular name, a short name
// or the kind, each with or without the group, in any case.
func (h *History) Find(word string) []Resource {
	word = strings.ToLower(word)
	var found []Resource
	for _, r := range h.Resources() {
		for _, name := range append([]string{r.Resource, r.Singular, strings.ToLower(r.Kind)}, r.ShortNames...) {
			if name != "" && (word == name || word == name+"."+r.Group) {
				found = append(found, r)
				break
			}
		}
	}
	return found
}

// Keys returns the keys of all objects of a resource that ever existed, sorted.
func (h *History) Keys(resource string) []Key {
	var keys []Key
	for _, number := range h.sorted {
		if key := h.keys[number]; key.Resource == resource {
			keys = append(keys, key)
		}
	}
	return keys
}

// Versions yields the versions of an object, the oldest first.
func (h *History) Versions(key Key) iter.Seq[Version] {
	return func(yield func(Version) bool) {
		number, ok := h.numbers[key]
		if !ok {
			return
		}
		for _, e := range h.timelines[number] {
			if !yield(e.version(key)) {
				return
			}
		}
	}
}

func (e entry) version(key Key) Version {
	return Version{Key: key, Revision: e.revision, Time: time.Unix(0, e.time), Deleted: e.content < 0}
}

// fileOf returns the file with a content.
func (h *History) fileOf(index int32) io.ReaderAt {
	i := sort.Search(len(h.files), func(i int) bool { return h.files[i].contents > int(index) })
	return h.files[i-1].file
}

// content returns the content of a version.
func (h *History) content(index int32) ([]byte, error) {
	file := h.fileOf(index)
	var chain []content
	for c := h.contents[index]; ; c = h.contents[index] {
		chain = append(chain, c)
		if c.base == 0 {
			break
		}
		index -= int32(c.base)
	}
	var data []byte
	for _, c := range slices.Backward(chain) {
		buf := make([]byte, c.size)
		_, err := file.ReadAt(buf, c.at)
		if err == nil || errors.Is(err, io.EOF) {
			data, err = decompress(data, buf)
		}
		if err != nil {
			return nil, fmt.Errorf("read version at offset %d: %w", c.at, err)
		}
	}
	return bytes.TrimSpace(data), nil // earlier recorders wrote a line end
}

// State is all objects at one moment of a History.
type State struct {
	h    *History
	find func(timeline []entry) int // number of entries up to the moment
}

// Parse returns the state at a moment that a user gives: a revision, or a time in RFC 3339. A time
// without a fraction means the end of its second, because Kubernetes and kelson history show times
// without their fractions. Parse returns an error for moments that are not in the history.
func (h *History) Parse(moment string) (State, error) {
	var t, end time.Time
	revision, err := strconv.ParseUint(moment, 10, 64)
	if err != nil {
		if t, err = time.Parse(time.RFC3339, moment); err != nil {
			return State{}, fmt.Errorf("invalid moment %q: want a revision or a time such as 2026-11-23T10:00:00Z",
				moment)
		}
		if end = t; !strings.ContainsAny(moment, ".,") {
			end = t.Add(time.Second - 1)
		}
	}
	start, began, complete := h.Start()
	_, ended := h.Span()
	switch {
	case complete && (t.IsZero() && revision < start || !t.IsZero() && end.Before(began)):
		return State{}, fmt.Errorf("%s: the history begins later, at revision %d (%s)", moment, start,
			began.UTC().Format(time.RFC3339Nano))
	case t.IsZero() && revision > h.Newest():
		return State{}, fmt.Errorf("%s: the history ends before, at revision %d (%s)", moment, h.Newest(),
			ended.UTC().Format(time.RFC3339Nano))
	case t.After(time.Now()):
		return State{}, fmt.Errorf("%s: this time is in the future", moment)
	case t.IsZero():
		return h.At(revision), nil
	}
	return h.AtTime(end), nil
}

// Last returns the newest revision in the state, which may be that of a deletion, and its time;
// zero for a state before the first version.
func (s State) Last() (revision uint64, t time.Time) {
	var at int64
	for _, l := range s.h.timelines {
		if n := s.find(l); n > 0 && l[n-1].revision > revision {
			revision, at = l[n-1].revision, l[n-1].time
		}
	}
	if revision > 0 {
		t = time.Unix(0, at)
	}
	return revision, t
}

// At returns the state at a revision. It takes constant time.
func (h *History) At(revision uint64) State {
	return State{h, func(l []entry) int {
		return sort.Search(len(l), func(i int) bool { return l[i].revision > revision })
	}}
}

// AtTime returns the state at a time. It takes constant time.
func (h *History) AtTime(t time.Time) State {
	at := t.UnixNano()
	return State{h, func(l []entry) int {
		return sort.Search(len(l), func(i int) bool { return l[i].time > at })
	}}
}

// Get returns an object's version in the state, and its JSON. It returns false if the object did
// not exist; if it had been deleted, the version is the deletion.
func (s State) Get(key Key) (v Version, data []byte, ok bool, err error) {
	number, known := s.h.numbers[key]
	if !known {
		return Version{}, nil, false, nil
	}
	n := s.find(s.h.timelines[number])
	if n == 0 {
		return Version{}, nil, false, nil
	}
	e := s.h.timelines[number][n-1]
	if e.content < 0 {
		return e.version(key), nil, false, nil
	}
	data, err = s.h.content(e.content)
	return e.version(key), data, err == nil, err
}

// Objects returns the versions of all objects that exist in the state, sorted by key. An empty
// resource means all resources.
func (s State) Objects(resource string) []Version {
	var found []Version
	for _, number := range s.h.sorted {
		key := s.h.keys[number]
		if resource != "" && key.Resource != resource {
			continue
		}
		l := s.h.timelines[number]
		if n := s.find(l); n > 0 && l[n-1].content >= 0 {
			found = append(found, l[n-1].version(key))
		}
	}
	return found
}
