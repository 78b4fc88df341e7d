package informer

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator/client"
)

// overlay is what this process wrote and the informer may not have seen yet, by key. It is what makes a process read its own
// writes: an entry lies over the copy as long as it says more than the copy does. Entries are few and short-lived.
//
// How it is known that the informer has caught up: versions of one collection are numbers that grow with each change, a
// watch delivers all changes in their order, so once the informer has seen anything of version v or later, it has seen
// everything up to v. A deletion that the server answers without a version is known by the uid of what was deleted, which
// never comes back.
type overlay map[client.Key]entry

type knowledge int

const (
	present  knowledge = iota // the object is obj, as of version
	gone                      // the object uid, which lived at version (0 if that is not known), is deleted; so is before
	behind                    // there is something newer than the copy, at version or later
	outdated                  // the state of uid at version, and all before it, was followed by another
	opaque                    // there is something newer, and its version is no number
)

type entry struct {
	what    knowledge
	version uint64
	uid     types.UID
	before  types.UID     // of gone: another object of that name, which came before
	obj     client.Object // of present
	whole   bool          // obj is the server's answer itself, as a watch will bring it
	text    string        // the version of opaque
	since   time.Time
	// known is when every copy had the entry: who reads after that sees it. Zero before that.
	known time.Time
}

// entryLife bounds how long an entry stays that the informer does not confirm, because what it waits for had come before
// the entry. Such an entry hides nothing that exists: it only takes room.
const entryLife = 10 * time.Minute

// note, under the lock, lays an entry over the copy, unless there is a later one already.
func (i *informer) note(key client.Key, e entry) {
	if i.partOf(key) == nil && len(i.parts) > 0 {
		return // outside of the scope
	}
	if e.what == gone && e.uid == "" {
		return // nothing was known, so nothing can be wrong
	}
	if old, ok := i.written[key]; ok {
		if !e.supersedes(old) {
			return
		}
		if e.what == gone && e.uid == old.uid { // it lived at least until then
			e.version = max(e.version, old.version)
		}
	}
	e.since = time.Now()
	i.written[key] = e
	if !i.isNews(key, e) {
		delete(i.written, key)
	}
}

// supersedes says that an entry tells something later than an old one of the same key. Answers may come in another order than
// the server gave them.
func (e entry) supersedes(old entry) bool {
	switch {
	case e.what == opaque || old.what == opaque:
		return true
	case old.what == gone && (old.uid == e.uid || old.before == e.uid):
		return false // whatever else is known of it, it came before
	case e.what == gone && (e.uid == old.uid || e.before == old.uid):
		return true
	case e.version == old.version:
		return e.what == outdated || e.what == present && old.what == behind
	}
	return e.version > old.version
}

// writtenAs, under the lock, is when the state of an object that the copy is about to get was known as what a write of this process led to;
// zero if it was not, or somebody may have read an older state since.
func (i *informer) writtenAs(obj client.Object) time.Time {
	e, ok := i.written[client.KeyOf(obj)]
	if !ok || i.unshown.Load() || e.what != present && e.what != behind || e.uid != obj.GetUID() || e.version != parseVersion(obj.GetResourceVersion()) {
		return time.Time{}
	}
	return e.known
}

// news, under the lock, is the entry of a key, if the copy does not contain it yet.
func (i *informer) news(key client.Key) (entry, bool) {
	e, ok := i.written[key]
	if ok && !i.isNews(key, e) {
		delete(i.written, key)
		ok = false
	}
	return e, ok
}

// isNews, under the lock, says that the copy does not contain an entry yet.
func (i *informer) isNews(key client.Key, e entry) bool {
	var progress uint64
	if p := i.partOf(key); p != nil {
		progress = p.progress
	}
	cached, has := i.objs.Get(key)
	switch e.what {
	case present, behind:
		return progress < e.version
	case gone:
		switch {
		case progress < e.version:
			return true // whatever is there came before
		case has:
			return cached.GetUID() == e.uid || cached.GetUID() == e.before
		}
		// The copy has seen it come, so it has also seen it go, if it is known when it lived.
		return e.version == 0 && time.Since(e.since) < entryLife
	case outdated:
		if has {
			return cached.GetUID() == e.uid && parseVersion(cached.GetResourceVersion()) <= e.version
		}
		return progress < e.version
	case opaque:
		return time.Since(e.since) < entryLife && (!has || cached.GetResourceVersion() != e.text)
	}
	return false
}

// sweep, under the lock, drops the entries that the copy contains and nobody asked for. After a complete list whose version is
// lower than what was seen before, the server has another history, to which no entry belongs.
func (i *informer) sweep(rewritten bool) {
	for key, e := range i.written {
		if rewritten || !i.isNews(key, e) {
			delete(i.written, key)
		}
	}
}

// partOf, under the lock, is the part that has a key; nil if none does.
func (i *informer) partOf(key client.Key) *part {
	for _, p := range i.parts {
		if p.namespace == "" || p.namespace == key.Namespace {
			return p
		}
	}
	return nil
}
