package store

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
)

// loadBatch is the number of records that the stages of a loader exchange at once.
const loadBatch = 512

// A loader fills an empty view with the records of a Backend. It works in three stages: the Backend
// reads and checks records and calls add, the second stage reads the heads of several batches at
// once, and the third one fills the trees, with one batch after the other. The goroutines start
// with the second batch of records, because small states load faster without them.
//
// Objects of a state file come in the order of their paths, so the tree of objects only appends.
// The entries of the indexes come in no order. They are sorted at the end, so that the indexes only
// append too: sorting a million entries takes a fifth of the time of inserting them.
//
// New objects share allocations (see slabs), as after Pack.
type loader struct {
	view         *view
	budget       *budget
	counts       map[string]int
	uids, owners indexEntries

	batch   []Record
	records chan []Record      // nil until the second batch
	loaded  chan chan withHead // of each batch, in order
	idle    chan *slabs        // one for each batch that can be in the second stage
	done    chan struct{}
	failed  atomic.Pointer[error] // the first error of the second stage
}

// withHead is a batch after the second stage: the entries before the first error.
type withHead struct {
	entries []entry
	err     error
}

// An entry is an object with its entry in the index of UIDs.
type entry struct {
	object     *Object
	uidAndPath string
}

func newLoader(v *view, b *budget) *loader {
	return &loader{view: v, budget: b, counts: map[string]int{}}
}

// add takes a record. The loader keeps its data.
func (l *loader) add(r Record) error {
	if failed := l.failed.Load(); failed != nil {
		return *failed
	}
	if len(l.batch) == loadBatch {
		l.start()
		l.records <- l.batch
		l.batch = nil
	}
	if l.batch == nil {
		l.batch = make([]Record, 0, loadBatch)
	}
	l.batch = append(l.batch, r)
	return nil
}

// finish processes what is left, waits for the goroutines, and returns the first error.
func (l *loader) finish() error {
	if l.records != nil {
		close(l.records)
		<-l.done
	}
	l.insert(l.heads(l.batch, &slabs{}))
	for resource, n := range l.counts {
		l.view.count(resource, n)
	}
	l.uids.load(l.view.uids)
	l.owners.load(l.view.owners)
	if failed := l.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}

func (l *loader) start() {
	if l.records != nil {
		return
	}
	l.records, l.loaded, l.done = make(chan []Record, 4), make(chan chan withHead, 4), make(chan struct{})
	l.idle = make(chan *slabs, runtime.GOMAXPROCS(0))
	for range cap(l.idle) {
		l.idle <- &slabs{}
	}
	go func() {
		defer close(l.loaded)
		for batch := range l.records {
			s, result := <-l.idle, make(chan withHead, 1)
			l.loaded <- result
			go func() {
				result <- l.heads(batch, s)
				l.idle <- s
			}()
		}
	}()
	go func() {
		defer close(l.done)
		for result := range l.loaded {
			l.insert(<-result)
		}
	}()
}

// heads is the second stage.
func (l *loader) heads(batch []Record, s *slabs) withHead {
	entries := make([]entry, 0, len(batch))
	for _, r := range batch {
		obj := s.object()
		obj.budget = l.budget
		uidAndPath, err := obj.load(r, s)
		if err != nil {
			return withHead{entries, err}
		}
		entries = append(entries, entry{obj, uidAndPath})
	}
	return withHead{entries, nil}
}

// insert is the third stage. After an error it does nothing.
func (l *loader) insert(batch withHead) {
	if l.failed.Load() != nil {
		return
	}
	v := l.view
	for _, e := range batch.entries {
		v.objects.Load(e.object.path, e.object)
		if e.object.Head.UID != "" {
			l.uids.add(e.uidAndPath)
		}
		l.counts[e.object.Key.Resource]++
		v.bytes += e.object.bytes() + indexBytes
		for i := range e.object.Head.Owners {
			if uid := e.object.Head.Owners[i].UID; uid != "" {
				l.owners.add(join(uid, e.object.path))
			}
		}
	}
	if batch.err != nil {
		l.failed.Store(&batch.err)
	}
}

// indexEntries are new entries of an index.
type indexEntries []indexEntry

// An indexEntry has the beginning of its text as a number: most entries differ there, and are
// compared without reading the text, which is elsewhere in memory.
type indexEntry struct {
	first uint64
	text  string
}

func (e *indexEntries) add(text string) {
	var first [8]byte
	copy(first[:], text)
	*e = append(*e, indexEntry{binary.BigEndian.Uint64(first[:]), text})
}

// load sorts the entries and adds them to an index.
func (e indexEntries) load(to *index) {
	slices.SortFunc(e, func(a, b indexEntry) int {
		if a.first != b.first {
			return cmp.Compare(a.first, b.first)
		}
		return strings.Compare(a.text, b.text)
	})
	for i := range e {
		to.Load(e[i].text, struct{}{})
	}
}

// load sets the fields of a new object, except its budget, and returns its entry in the index of
// UIDs. The object keeps the record's data.
func (o *Object) load(r Record, s *slabs) (uidAndPath string, err error) {
	head, at, err := scanHead(r.Data)
	if err != nil {
		return "", fmt.Errorf("%s %s/%s: %w", r.Key.Resource, r.Key.Namespace, r.Key.Name, err)
	}
	uidAndPath = s.string(string(head.UID), separator, r.Key.Resource, separator, r.Key.Namespace, slash, r.Key.Name)
	o.path = uidAndPath[len(head.UID)+len(separator):]
	head.UID = types.UID(uidAndPath[:len(head.UID)])
	o.Key, o.Revision, o.Created, o.Data, o.Head, o.version = split(o.path), r.Revision, r.Created, r.Data, head, at
	o.measure()
	return uidAndPath, nil
}
