package informer

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator/client"
)

// overlay has, by key, the writes of this process that the informer may not have received yet. With
// it, a process reads its own writes: an entry overlays the copy until the copy is at least as new.
// Entries are few and short-lived.
//
// An informer has caught up if it has received a version v or later: the versions of one collection
// are increasing numbers, and a watch delivers all changes in order. A deletion whose response has
// no version is recognized by the uid of the object, which is never reused.
type overlay map[client.Key]entry

// entryKind classifies what an entry says about the object of its key.
type entryKind int

const (
	present entryKind = iota // the object is obj, as of version
	// object uid, which existed at version (0 if unknown), is deleted, and so is object before
	gone
	behind   // the object has a newer state than the copy, at version or later
	outdated // a newer state has replaced the state of uid at version
	opaque   // a newer state exists, and its version is not a number
)

type entry struct {
	kind    entryKind
	version uint64
	uid     types.UID
	before  types.UID     // for gone: an earlier object of the same name
	obj     client.Object // for present
	scoped  scoped        // for present
	whole   bool          // obj is the unmodified response of the server, as a watch delivers it
	text    string        // for opaque: the version
	since   time.Time
	// visibleSince is the time since which every copy has the entry, so that later reads see it;
	// zero before that.
	visibleSince time.Time
}

// entryLife bounds how long an entry stays if the informer never confirms it, because the
// confirming event came before the entry. Such an entry hides no existing object; it only takes
// memory.
const entryLife = 10 * time.Minute

// addEntry adds an entry, unless there is a later one. The caller holds the lock.
func (i *informer) addEntry(key client.Key, e entry) {
	if i.partOf(key) == nil && len(i.parts) > 0 {
		return // outside of the scope
	}
	if e.kind == gone && e.uid == "" {
		return // the copy had no such object, so it can't be stale
	}
	if old, ok := i.written[key]; ok {
		if !e.supersedes(old) {
			return
		}
		if e.kind == gone && e.uid == old.uid { // it existed at least until that version
			e.version = max(e.version, old.version)
		}
	}
	e.since = time.Now()
	i.written[key] = e
	if !i.isPending(key, e) {
		delete(i.written, key)
	}
}

// supersedes reports whether an entry is later than an old one of the same key. Responses may
// arrive in a different order than the server sent them.
func (e entry) supersedes(old entry) bool {
	switch {
	case e.kind == opaque || old.kind == opaque:
		return true
	case old.kind == gone && (old.uid == e.uid || old.before == e.uid):
		return false // the object was deleted; all other states came before
	case e.kind == gone && (e.uid == old.uid || e.before == old.uid):
		return true
	case e.version == old.version:
		return e.kind == outdated || e.kind == present && old.kind == behind
	}
	return e.version > old.version
}

// writtenAs returns the time since which readers could see the state that the copy is about to
// receive, if it is the result of an own write. It returns zero for other states, and if an older
// state may have been read since. The caller holds the lock.
func (i *informer) writtenAs(obj client.Object) time.Time {
	e, ok := i.written[client.KeyOf(obj)]
	if !ok || i.unshown.Load() || e.kind != present && e.kind != behind || e.uid != obj.GetUID() ||
		e.version != parseVersion(obj.GetResourceVersion()) {
		return time.Time{}
	}
	return e.visibleSince
}

// pending returns the entry of a key that the copy does not contain yet. The caller holds the lock.
func (i *informer) pending(key client.Key) (entry, bool) {
	e, ok := i.written[key]
	if ok && !i.isPending(key, e) {
		delete(i.written, key)
		ok = false
	}
	return e, ok
}

// isPending reports whether the copy does not contain an entry yet. The caller holds the lock.
func (i *informer) isPending(key client.Key, e entry) bool {
	var progress uint64
	if p := i.partOf(key); p != nil {
		progress = p.progress
	}
	cached, has := i.objs.Get(key)
	switch e.kind {
	case present, behind:
		return progress < e.version
	case gone:
		switch {
		case progress < e.version:
			return true // the copy has an earlier state
		case has:
			return cached.GetUID() == e.uid || cached.GetUID() == e.before
		}
		// If the version is known, the copy has received the creation and also the deletion.
		return e.version == 0 && time.Since(e.since) < entryLife
	case outdated:
		if has {
			return cached.GetUID() == e.uid &&
				(parseVersion(cached.GetResourceVersion()) <= e.version ||
					i.format.isEnding(cached) && time.Since(e.since) < maxLag)
		}
		return progress < e.version
	case opaque:
		return time.Since(e.since) < entryLife && (!has || cached.GetResourceVersion() != e.text)
	}
	return false
}

// isEnding reports whether an object of the copy is being deleted, and nothing holds it.
// kube-apiserver deletes a pod that is not on a node in two writes.
func (f *format) isEnding(obj client.Object) bool {
	obj = f.whole(obj)
	return obj != nil && obj.GetDeletionTimestamp() != nil && !isHeld(obj)
}

// sweep drops the entries that the copy contains. If the version of a complete list is lower than
// an earlier version (rewritten), the server has a different history, and sweep drops all entries.
// The caller holds the lock.
func (i *informer) sweep(rewritten bool) {
	for key, e := range i.written {
		if rewritten || !i.isPending(key, e) {
			delete(i.written, key)
		}
	}
}

// partOf returns the part that has a key, or nil. The caller holds the lock.
func (i *informer) partOf(key client.Key) *part {
	for _, p := range i.parts {
		if p.namespace == "" || p.namespace == key.Namespace {
			return p
		}
	}
	return nil
}
