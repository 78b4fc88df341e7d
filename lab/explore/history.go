package explore

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver/store"
)

// history reads every version that a run writes, in order.
type history struct {
	cursor *store.Cursor
	names  names

	// before has the objects of the prepared state that have changed since.
	before map[store.Key]*unstructured.Unstructured
	// nil: an object of the prepared state that was deleted
	now     map[store.Key]*unstructured.Unstructured
	hashes  map[store.Key][sha256.Size]byte
	sum     [sha256.Size]byte // sum of the hashes, which identifies the state
	record  hash.Hash         // of the bytes of all versions, in order, with UIDs replaced
	uids    map[string]int    // UIDs in the order in which they appear
	seen    map[[sha256.Size]byte]bool
	counts  counter           // of versions
	changed map[string]uint64 // the revision of the last change of each resource
	// removal is the revision of the last removal of an object, see remove; 0 if there was none.
	// removed has the objects that were removed.
	removal uint64
	removed map[types.UID]bool
	// names of Nodes that LoseNode has deleted; they are not part of the state
	lost []string
	// names of the definitions that an action has changed; they are not part of the state
	excluded map[string]bool
	outside  *outside // the services, which are part of the state
	called   bool     // a call has changed a service since the last turn
	recent   []string // the most recent versions, for messages
	all      []string // the text that record makes of each version; nil unless keepAll
	keepAll  bool

	// changes counts the versions, except those of background resources and periodic writes.
	changes int
	// writes has the changes since the operator was last quiet; nil unless listening.
	writes    []recentWrite
	listening bool
	// version is called with each version, except those of background resources.
	version func(Change) error
}

// Change is one version of an object.
type Change struct {
	// Type is ADDED, MODIFIED or DELETED.
	Type string
	// Object is the new version, or the last one of a deleted object. Don't change it.
	Object *unstructured.Unstructured
	// Previous is the version before; nil for a new object.
	Previous *unstructured.Unstructured
}

func newHistory() *history {
	return &history{names: names{uids: map[types.UID]string{}, generated: map[string]string{}, began: time.Now()},
		record: sha256.New(), uids: map[string]int{}, before: map[store.Key]*unstructured.Unstructured{},
		now: map[store.Key]*unstructured.Unstructured{}, hashes: map[store.Key][sha256.Size]byte{},
		seen: map[[sha256.Size]byte]bool{}, removed: map[types.UID]bool{},
		counts: counter{}, changed: map[string]uint64{}, excluded: map[string]bool{}, outside: newOutside(nil, nil)}
}

// begin makes the current state of a store the prepared state. It must be called before read.
func (h *history) begin(s *store.Store) (err error) {
	h.cursor, err = s.Watch("", s.Snapshot().Revision())
	return err
}

// read reads the versions that were written since the last call.
func (h *history) read() error {
	for {
		events, _, err := h.cursor.Next()
		if err != nil || len(events) == 0 {
			return err
		}
		for _, e := range events {
			if err := h.take(e); err != nil {
				return err
			}
		}
	}
}

var eventTypes = map[store.EventType]string{store.Added: "ADDED", store.Modified: "MODIFIED", store.Deleted: "DELETED"}

// remove notes the removal of an object. One that follows the removal of an owner, as the garbage
// collector does it, is a part of that.
func (h *history) remove(obj *unstructured.Unstructured, revision uint64) {
	h.removed[obj.GetUID()] = true
	if !slices.ContainsFunc(obj.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return h.removed[o.UID] }) {
		h.removal = revision
	}
}

func (h *history) take(e *store.Event) error {
	key := e.Object.Key
	if background.Has(key.Resource) || key.Name == mutatedName {
		return nil
	}
	h.keep(e)
	obj, err := decode(e.Object)
	if err != nil {
		return err
	}
	h.names.learn(obj)
	previous := h.now[key]
	if previous == nil && e.Prev != nil {
		if previous, err = decode(e.Prev); err != nil {
			return err
		}
		h.names.learn(previous)
		if h.before[key] == nil {
			h.before[key] = previous
		}
	}
	id := h.names.id(key)
	change := Change{Type: eventTypes[e.Type], Object: obj, Previous: previous}
	repeats := h.names.periodic.repeats(change, &h.names)
	if !repeats {
		h.changes++
		h.note(eventTypes[e.Type] + " " + id)
	}
	if h.listening {
		h.writes = append(h.writes, writeOf(id, change, &h.names))
	}
	h.changed[key.Resource] = e.Revision()
	var hash [sha256.Size]byte
	if e.Type == store.Deleted {
		h.remove(obj, e.Revision())
		if h.before[key] == nil {
			delete(h.now, key)
		} else {
			h.now[key] = nil
			hash = digest(id + " deleted")
		}
	} else {
		h.now[key] = obj
		hash = digest(map[string]any{"id": id, "content": h.names.normal(obj)})
	}
	old := h.hashes[key]
	for i := range h.sum {
		h.sum[i] ^= old[i] ^ hash[i]
	}
	h.hashes[key] = hash
	h.seen[h.sum] = true
	if !repeats {
		h.counts.count(id, change, &h.names)
	}
	if h.version != nil {
		return h.version(change)
	}
	return nil
}

// noteCalls records what a call of a service has changed.
func (h *history) noteCalls() {
	for id, n := range h.outside.counted() {
		h.counts[called+id] = n
	}
	key := store.Key{Resource: "services"}
	old, hash := h.hashes[key], h.outside.digest()
	if old == hash {
		return
	}
	for i := range h.sum {
		h.sum[i] ^= old[i] ^ hash[i]
	}
	h.hashes[key] = hash
	h.seen[h.sum] = true
	h.called = true
}

// keep adds every byte of a version to the record, but replaces UIDs by numbers in the order of
// their first occurrence: Kubernetes' controllers create Pods in parallel, so equal Pods may swap
// their UIDs.
func (h *history) keep(e *store.Event) {
	key := e.Object.Key
	var text bytes.Buffer
	fmt.Fprintf(&text, "%d %s %s/%s/%s ", e.Revision(), eventTypes[e.Type], key.Resource, key.Namespace, key.Name)
	data, rest := e.Object.Data, 0
	for _, at := range uidForm.FindAllIndex(data, -1) {
		id := string(data[at[0]:at[1]])
		n, ok := h.uids[id]
		if !ok {
			n = len(h.uids)
			h.uids[id] = n
		}
		text.Write(data[rest:at[0]])
		fmt.Fprintf(&text, "uid %d", n)
		rest = at[1]
	}
	text.Write(data[rest:])
	h.record.Write(text.Bytes())
	if h.keepAll {
		h.all = append(h.all, text.String())
	}
}

// lateWrites returns how long after the last change Kubernetes' controllers may still write,
// because of the objects that exist.
func (h *history) lateWrites() (late time.Duration) {
	for key, obj := range h.now {
		switch {
		case obj == nil:
		case key.Resource == "endpointslices.discovery.k8s.io":
			late = max(late, endpointsQuiet)
		case key.Resource == "jobs.batch":
			status, _, _ := unstructured.NestedMap(obj.Object, "status")
			if !hasCondition(status, "Complete") && !hasCondition(status, "Failed") {
				late = max(late, jobQuiet)
			}
		}
	}
	return late
}

// note records a version as one of the most recent.
func (h *history) note(line string) {
	const kept = 8
	if h.recent = append(h.recent, line); len(h.recent) > kept {
		h.recent = h.recent[1:]
	}
}

// id returns RESOURCE NAMESPACE/NAME, with a generated name as PREFIX*.
func (n *names) id(key store.Key) string {
	name := key.Name
	if generated, ok := n.generated[name]; ok {
		name = generated
	}
	return key.Resource + " " + qualified(key.Namespace, name)
}

// state returns the objects that the run has changed. An object of the prepared state that is as it
// was before, such as a Node whose agent has only renewed the times of the conditions, is
// unchanged.
func (h *history) state() State {
	s := State{objects: map[string][]map[string]any{}, prepared: map[string][]map[string]any{}}
	for _, key := range slices.SortedFunc(maps.Keys(h.now), compareKeys) {
		if slices.Contains(h.lost, key.Name) && strings.Contains(key.Resource, "nodes") {
			continue
		}
		if h.excludes(key) {
			continue
		}
		id := h.names.id(key)
		var before, now []map[string]any
		if obj := h.before[key]; obj != nil {
			before = append(before, h.names.normal(obj))
		}
		if obj := h.now[key]; obj != nil && !isPast(obj) {
			now = append(now, h.names.normal(obj))
		}
		if reflect.DeepEqual(before, now) {
			continue
		}
		s.objects[id] = append(s.objects[id], now...)
		if before != nil {
			s.prepared[id] = append(s.prepared[id], before...)
		}
	}
	h.outside.objects(s.objects)
	for _, same := range s.objects {
		sortByText(same)
	}
	return s
}

// sortByText sorts objects by their texts, each of which takes long to make.
func sortByText(objects []map[string]any) {
	if len(objects) < 2 {
		return
	}
	type text struct {
		object map[string]any
		text   string
	}
	texts := make([]text, len(objects))
	for i, o := range objects {
		texts[i] = text{o, fmt.Sprint(o)}
	}
	slices.SortFunc(texts, func(a, b text) int { return strings.Compare(a.text, b.text) })
	for i, t := range texts {
		objects[i] = t.object
	}
}

func compareKeys(a, b store.Key) int {
	return strings.Compare(a.Resource+"/"+a.Namespace+"/"+a.Name, b.Resource+"/"+b.Namespace+"/"+b.Name)
}
