// Package causes explains why objects are in their state, from the traces that operators record
// (operator/trace). It finds the reconciles that wrote an object, and follows their causes across
// controllers and operators. In the other direction, it finds the effects of a reconcile.
//
//	write of a Pod ◀─ reconcile of an At ◀─ patch of the At ◀─ reconcile ◀─ kubectl created the At
//
// Links come from resourceVersions: the event that caused a reconcile has the version that an
// earlier write returned. These answers are exact.
//
// For programs that record no trace, a [Log] matches what each client watched with what it then
// wrote, from an audit log of any cluster. These answers are only probable, and have evidence.
package causes

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"kelson.dev/operator/trace"
)

// Trace holds the reconciles of several operators. The zero value is empty, and keeps all records.
// All methods are safe for concurrent use. Callers must not modify records.
type Trace struct {
	limit    int // 0: none
	mu       sync.RWMutex
	removed  int                 // number of records
	gone     map[string]*idSet   // the IDs of removed records, by run
	records  []*trace.LineRecord // by time
	byID     map[id]*trace.LineRecord
	writers  map[state]write
	effects  map[state][]*trace.LineRecord  // by the state in their causes
	byObject map[Object][]*trace.LineRecord // reconciles of an object, by time
	log      *Log                           // continues chains; nil without an audit log
}

// id identifies a record.
type id struct {
	run    string
	number uint64
}

// state is an object at the resource version of a write.
type state struct {
	object          Object
	resourceVersion string
}

// write is a write of a record.
type write struct {
	record *trace.LineRecord
	write  *trace.LineWrite
}

// Object names an object of a trace.
type Object struct {
	Cluster   string `json:"cluster,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

func (o Object) String() string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	if o.Cluster != "" {
		name = o.Cluster + ":" + name
	}
	return o.Kind + " " + name
}

// Read reads traces, which consist of lines of JSON. It ignores an incomplete last line, which the
// operator is still writing.
func Read(from ...io.Reader) (*Trace, error) {
	t := &Trace{}
	for _, r := range from {
		lines := bufio.NewReader(r)
		for n := 1; ; n++ {
			line, err := lines.ReadBytes('\n')
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("read trace: %w", err)
			}
			record := &trace.LineRecord{}
			if err := json.Unmarshal(line, record); err != nil {
				return nil, fmt.Errorf("read trace: line %d: %w", n, err)
			}
			t.Add(record)
		}
	}
	return t, nil
}

// New returns an empty trace that keeps limit records, and at times a quarter more. It removes
// those of objects with many records first: see trace.Retain.
func New(limit int) *Trace { return &Trace{limit: limit} }

// Removed returns the number of records that were removed.
func (t *Trace) Removed() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.removed
}

// Add adds a record, and reports whether it was new: a record with the ID and run of an earlier one
// is ignored, also if that was removed, so that a trace can be read repeatedly.
func (t *Trace) Add(r *trace.LineRecord) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[id{r.Run, r.ID}] != nil || t.gone[r.Run].has(r.ID) {
		return false
	}
	t.add(r)
	if t.limit > 0 && len(t.records) > t.limit+t.limit/4 {
		t.retain()
	}
	return true
}

// retain removes records beyond the limit. The caller holds the lock.
func (t *Trace) retain() {
	all := t.records
	kept := trace.Retain(all, t.limit, func(r *trace.LineRecord) trace.Retention[reconciledBy] {
		return trace.Retention[reconciledBy]{Object: reconciledBy{r.Controller, Reconciled(r)}, Failed: r.Error != "",
			Changed: r.Changed()}
	})
	t.removed += len(all) - len(kept)
	t.records, t.byID = nil, nil
	for _, r := range kept {
		t.add(r)
	}
	if t.gone == nil {
		t.gone = map[string]*idSet{}
	}
	for _, r := range all {
		if t.byID[id{r.Run, r.ID}] == nil {
			if t.gone[r.Run] == nil {
				t.gone[r.Run] = &idSet{}
			}
			t.gone[r.Run].add(r.ID)
		}
	}
}

// reconciledBy is an object and the controller that reconciled it.
type reconciledBy struct {
	controller string
	object     Object
}

func (t *Trace) add(r *trace.LineRecord) {
	if t.byID == nil {
		t.byID, t.writers = map[id]*trace.LineRecord{}, map[state]write{}
		t.effects, t.byObject = map[state][]*trace.LineRecord{}, map[Object][]*trace.LineRecord{}
	}
	t.byID[id{r.Run, r.ID}] = r
	t.records = insert(t.records, r)
	t.byObject[Reconciled(r)] = insert(t.byObject[Reconciled(r)], r)
	for i := range r.Writes {
		w := &r.Writes[i]
		if w.Changed && w.Error == "" && w.ResourceVersion != "" {
			t.writers[state{Written(w), w.ResourceVersion}] = write{r, w}
		}
	}
	for i := range r.Causes {
		if c := &r.Causes[i]; c.ResourceVersion != "" {
			s := state{Caused(c), c.ResourceVersion}
			t.effects[s] = insert(t.effects[s], r)
		}
	}
}

// insert adds a record after those that are not later. Records arrive almost in the order of time.
func insert(list []*trace.LineRecord, r *trace.LineRecord) []*trace.LineRecord {
	i := len(list)
	for i > 0 && list[i-1].Time.After(r.Time) {
		i--
	}
	return slices.Insert(list, i, r)
}

// Records returns all records by time. Later calls of Add do not change the slice.
func (t *Trace) Records() []*trace.LineRecord {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Clone(t.records)
}

// Record returns the record with an ID of a run; nil if there is none.
func (t *Trace) Record(run string, number uint64) *trace.LineRecord {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byID[id{run, number}]
}

// Written returns the object of a write.
func Written(w *trace.LineWrite) Object { return Object{w.Cluster, w.Kind, w.Namespace, w.Name} }

// Reconciled returns the object of a reconcile.
func Reconciled(r *trace.LineRecord) Object {
	return Object{r.Cluster, r.Kind, r.Namespace, r.Name}
}

// Caused returns the object of the event in a cause; zero if it has none.
func Caused(c *trace.LineCause) Object { return Object{c.Cluster, c.Kind, c.Namespace, c.Name} }

// isKind reports whether a name in lower case is that of a kind, in singular or plural.
func isKind(name, kind string) bool {
	kind = strings.ToLower(kind)
	return name == kind || plural(kind, name)
}

// plural reports whether a word is the plural of another, or the same.
func plural(one, many string) bool {
	return many == one || many == one+"s" || many == one+"es" ||
		strings.HasSuffix(one, "y") && many == strings.TrimSuffix(one, "y")+"ies"
}

// Find returns the objects of the trace with the kind and name, sorted. Like kubectl, it accepts
// the kind in any case, as a plural, or followed by a dot and the group. An empty namespace matches
// all.
func (t *Trace) Find(kind, namespace, name string) []Object {
	kind, _, _ = strings.Cut(strings.ToLower(kind), ".")
	found := map[Object]bool{}
	consider := func(o Object) {
		if isKind(kind, o.Kind) && o.Name == name && (namespace == "" || o.Namespace == namespace) {
			found[o] = true
		}
	}
	for _, r := range t.Records() {
		consider(Reconciled(r))
		for i := range r.Causes {
			consider(Caused(&r.Causes[i]))
		}
		for i := range r.Writes {
			consider(Written(&r.Writes[i]))
		}
	}
	all := slices.Collect(maps.Keys(found))
	slices.SortFunc(all, func(x, y Object) int { return strings.Compare(x.String(), y.String()) })
	return all
}
