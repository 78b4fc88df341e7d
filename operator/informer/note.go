package informer

import (
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator/client"
)

// kindInformers returns the kind of obj and the informers of that kind.
func (s *informers) kindInformers(obj client.Object) (schema.GroupVersionKind, []*informer) {
	kind, err := client.KindOf(obj, s.cfg.Client.Scheme())
	if err != nil {
		return kind, nil // an object without a kind can't have been written
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return kind, s.copies(kind.GroupKind())
}

// copies returns the informers of a kind, in all versions and forms. The caller holds the lock.
func (s *informers) copies(kind schema.GroupKind) (copies []*informer) {
	for name, i := range s.members {
		if name.kind.GroupKind() == kind {
			copies = append(copies, i)
		}
	}
	return copies
}

func (s *informers) Has(obj client.Object) bool {
	_, copies := s.kindInformers(obj)
	for _, i := range copies {
		if known := i.newestOf(client.KeyOf(obj)); known != nil && known.GetUID() == obj.GetUID() {
			return true
		}
	}
	return false
}

func (s *informers) holds(obj client.Object) bool {
	_, copies := s.kindInformers(obj)
	return len(copies) > 0
}

// recordWrite adds an entry for obj to the overlay of every informer of its kind.
func (s *informers) recordWrite(obj client.Object, about func(*informer) entry) {
	_, copies := s.kindInformers(obj)
	key := client.KeyOf(obj)
	for _, i := range copies {
		e := about(i)
		i.mu.Lock()
		if len(copies) == 1 {
			e.visibleSince = time.Now()
		}
		i.addEntry(key, e)
		i.mu.Unlock()
	}
	if len(copies) < 2 {
		return
	}
	now := time.Now()
	for _, i := range copies {
		i.mu.Lock()
		if e, ok := i.written[key]; ok && e.visibleSince.IsZero() {
			e.visibleSince = now
			i.written[key] = e
		}
		i.mu.Unlock()
	}
}

// noteState records the state of an object in the response to a write. If given is set, the overlay
// may keep obj itself.
func (s *informers) noteState(obj client.Object, given bool) {
	if obj.GetDeletionTimestamp() != nil && !isHeld(obj) {
		s.noteEnd(obj) // the write removed the last finalizer
		return
	}
	kind, copies := s.kindInformers(obj)
	if len(copies) == 0 {
		return
	}
	e := entry{kind: behind, version: parseVersion(obj.GetResourceVersion()), uid: obj.GetUID()}
	if e.version == 0 {
		e.kind, e.text = opaque, obj.GetResourceVersion()
		s.opaqueOnce.Do(func() {
			s.cfg.Log.Warn("the server's resourceVersions are not numbers: after a write, reads of the object go to the server until the informer has "+
				"that very version", "resourceVersion", e.text)
		})
	}
	transform := s.transformOf(kind.GroupKind())
	var state client.Object // one copy for all informers
	s.recordWrite(obj, func(i *informer) entry {
		e := e
		if e.kind != behind || i.id.kind != kind {
			return e
		}
		switch i.id.form {
		case reflect.TypeOf(obj):
			if state == nil {
				if state = obj; !given || transform != nil { // Transform may modify shared parts
					state = obj.DeepCopyObject().(client.Object)
				}
				state = transformed(state, transform)
				state.GetObjectKind().SetGroupVersionKind(kind)
			}
			e.kind, e.obj, e.whole, e.scoped = present, state, given && transform == nil, i.scopedOf(obj)
		case reflect.TypeFor[*metav1.PartialObjectMetadata]():
			m := metadataOf(obj, kind)
			e.kind, e.scoped = present, i.scopedOf(m)
			e.obj = transformed(m, transform)
		}
		return e
	})
}

// noteDeleted records the object in the response to a delete. It still exists, with a deletion
// timestamp, if finalizers or its grace period hold it.
func (s *informers) noteDeleted(obj client.Object) {
	if obj.GetDeletionTimestamp() != nil && isHeld(obj) {
		s.noteState(obj, false)
		return
	}
	s.noteEnd(obj)
}

// noteEnd records that obj was deleted. The version of obj is used only as a version at which obj
// existed, because only some servers return the version of the deletion.
func (s *informers) noteEnd(obj client.Object) {
	e := entry{kind: gone, uid: obj.GetUID(), version: parseVersion(obj.GetResourceVersion())}
	s.recordWrite(obj, func(*informer) entry { return e })
}

// priorState identifies the last known state of an object before a delete.
type priorState struct {
	uid     types.UID
	version uint64
}

// priorStates returns, per informer, the state of the object that has obj's name; the state of obj
// if the informer has none. A delete by name deletes whichever object has the name.
func (s *informers) priorStates(obj client.Object) map[*informer]priorState {
	_, copies := s.kindInformers(obj)
	all := map[*informer]priorState{}
	for _, i := range copies {
		l := priorState{obj.GetUID(), parseVersion(obj.GetResourceVersion())}
		i.mu.Lock()
		if e, isPending := i.pending(client.KeyOf(obj)); isPending && e.uid != "" {
			l = priorState{e.uid, e.version}
		} else if cached, ok := i.objs.Get(client.KeyOf(obj)); ok {
			l = priorState{cached.GetUID(), parseVersion(cached.GetResourceVersion())}
		}
		i.mu.Unlock()
		all[i] = l
	}
	return all
}

// noteGone records a deletion whose response did not contain the object. uid is that of the
// response, if any.
func (s *informers) noteGone(obj client.Object, uid types.UID, prior map[*informer]priorState) {
	s.recordWrite(obj, func(i *informer) entry {
		l := prior[i]
		switch {
		case uid == "" || uid == l.uid:
			return entry{kind: gone, uid: l.uid, version: l.version}
		case uid == obj.GetUID():
			return entry{kind: gone, uid: uid, version: parseVersion(obj.GetResourceVersion()), before: l.uid}
		}
		return entry{kind: gone, uid: uid, before: l.uid}
	})
}

// transformed returns the result of a transform of obj. The transform may be nil.
func transformed(obj client.Object, transform func(client.Object) client.Object) client.Object {
	if transform == nil {
		return obj
	}
	return client.Transformed(obj, transform)
}

// isHeld reports whether finalizers or a grace period hold an object that is being deleted.
func isHeld(obj client.Object) bool {
	if grace := obj.GetDeletionGracePeriodSeconds(); len(obj.GetFinalizers()) > 0 || grace != nil && *grace > 0 {
		return true
	}
	// Namespaces also have finalizers outside of their metadata.
	switch obj := obj.(type) {
	case *corev1.Namespace:
		return len(obj.Spec.Finalizers) > 0
	case *metav1.PartialObjectMetadata: // if no finalizer is left, the watch reports the end
		return obj.GroupVersionKind().GroupKind() == schema.GroupKind{Kind: "Namespace"}
	case *unstructured.Unstructured:
		finalizers, _, _ := unstructured.NestedSlice(obj.Object, "spec", "finalizers")
		return obj.GetKind() == "Namespace" && len(finalizers) > 0
	}
	return false
}

func metadataOf(obj client.Object, kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{}
	setMetadata(m, obj)
	m.SetGroupVersionKind(kind)
	return m.DeepCopy()
}
