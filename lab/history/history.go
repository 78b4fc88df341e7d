package history

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"sort"
	"strings"
	"time"
)

// History is a file of versions. It keeps about 50 bytes per version in memory and reads contents
// from the file. All methods except Close are safe for concurrent use.
type History struct {
	file      io.ReaderAt
	close     func() error
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
}

type entry struct {
	revision uint64
	time     int64
	content  int32 // index in contents; -1: deleted
}

type content struct {
	at   int64
	size uint32
	base uint32 // how many versions before this one; 0: none
}

// Open reads a history from a file. The caller closes it.
func Open(name string) (*History, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		var h *History
		if h, err = Read(f, info.Size()); err == nil {
			h.close = f.Close
			return h, nil
		}
		err = fmt.Errorf("read %s: %w", name, err)
	}
	return nil, errors.Join(err, f.Close())
}

// Read reads a history of a given size in bytes. The History continues to read from file.
func Read(file io.ReaderAt, size int64) (*History, error) {
	h := &History{file: file, numbers: map[Key]int{}}
	head := make([]byte, headerSize)
	if _, err := file.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if string(head[:len(fileTag)]) != fileTag {
		return nil, fmt.Errorf("%w: not a history", ErrDamaged)
	}
	if v := binary.LittleEndian.Uint32(head[len(fileTag):]); v != formatVersion {
		return nil, fmt.Errorf("%w: format version %d; this program reads version %d", ErrDamaged, v, formatVersion)
	}
	var frame []byte
	for at := int64(headerSize); ; {
		n, ok, err := readFrame(file, at, size, &frame)
		if err != nil {
			return nil, err
		}
		if !ok {
			h.sort()
			return h, nil
		}
		if err := h.index(&decoder{rest: frame, at: at + int64(frameHead)}); err != nil {
			return nil, err
		}
		at += n
	}
}

func (h *History) sort() {
	h.sorted = make([]int, len(h.keys))
	for i := range h.sorted {
		h.sorted[i] = i
	}
	slices.SortFunc(h.sorted, func(i, j int) int {
		a, b := h.keys[i], h.keys[j]
		return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
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
func (h *History) index(d *decoder) error {
	for len(d.rest) > 0 && d.err == nil {
		kind := d.rest[0]
		d.skip(1)
		switch kind {
		case recordResource:
			var r Resource
			if err := json.Unmarshal(d.bytes(), &r); err != nil && d.err == nil {
				d.fail("invalid resource")
			}
			h.resources = append(h.resources, r)
		case recordObject:
			h.addObject(d)
		case recordVersion, recordDeletion:
			h.addVersion(d, kind == recordDeletion)
		default:
			d.fail("unknown record")
		}
	}
	return d.err
}

func (h *History) addObject(d *decoder) {
	resource, namespace, name := d.uvarint(), string(d.bytes()), string(d.bytes())
	if resource >= uint64(len(h.resources)) {
		d.fail("unknown resource")
		return
	}
	key := Key{h.resources[resource].Name(), namespace, name}
	h.numbers[key] = len(h.keys)
	h.keys = append(h.keys, key)
	h.timelines = append(h.timelines, nil)
}

func (h *History) addVersion(d *decoder, deleted bool) {
	object, e := d.uvarint(), entry{revision: d.uvarint(), content: -1}
	e.time = h.last + int64(d.uvarint())
	if object >= uint64(len(h.keys)) {
		d.fail("unknown object")
		return
	}
	if !deleted {
		base := d.uvarint()
		b := d.bytes()
		if base > uint64(len(h.contents)) {
			d.fail("unknown base")
			return
		}
		e.content = int32(len(h.contents))
		h.contents = append(h.contents, content{at: d.at - int64(len(b)), size: uint32(len(b)), base: uint32(base)})
	}
	if h.entries == 0 {
		h.first = e.time
	}
	h.entries++
	h.last, h.newest = e.time, max(h.newest, e.revision)
	h.timelines[object] = append(h.timelines[object], e)
}

// Close closes the file that Open opened.
func (h *History) Close() error {
	if h.close == nil {
		return nil
	}
	return h.close()
}

// Len returns the number of versions, with deletions.
func (h *History) Len() int { return h.entries }

// Newest returns the newest revision; 0 if the history is empty.
func (h *History) Newest() uint64 { return h.newest }

// Span returns the times of the oldest and the newest version; zero if the history is empty.
func (h *History) Span() (oldest, newest time.Time) {
	if h.entries == 0 {
		return time.Time{}, time.Time{}
	}
	return time.Unix(0, h.first), time.Unix(0, h.last)
}

// Resources returns the resources of the history in the order of their names.
func (h *History) Resources() []Resource {
	return slices.SortedFunc(slices.Values(h.resources), func(a, b Resource) int { return strings.Compare(a.Name(), b.Name()) })
}

// Find returns the resources that a user can mean by a word: the plural or singular name, a short
// name or the kind, each with or without the group, in any case.
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

// read returns the content of a version.
func (h *History) read(index int32) ([]byte, error) {
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
		_, err := h.file.ReadAt(buf, c.at)
		if err == nil || errors.Is(err, io.EOF) {
			data, err = decompress(data, buf)
		}
		if err != nil {
			return nil, fmt.Errorf("read version at offset %d: %w", c.at, err)
		}
	}
	return data, nil
}

// State is all objects at one moment of a History.
type State struct {
	h    *History
	find func(timeline []entry) int // number of entries up to the moment
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
	data, err = s.h.read(e.content)
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
