package informer

import (
	"context"
	"fmt"
	"hash/maphash"
	"reflect"

	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator/client"
)

// applied records a completed apply: a hash of the document with its options, and the identity of
// the resulting object. While the object does not change, the same apply would have no effect.
type applied struct {
	document uint64 // its hash
	uid      types.UID
	version  string
}

// Apply sends no request if the same document was applied before and the object has not changed
// since. Reconcilers apply the same objects on each run, so this is the common case.
func (c cached) Apply(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	o := client.NewWriteOptions(opts...)
	i := c.set.informerThatHas(obj)
	// a transformed copy differs from the server's response
	if o.DryRun || i == nil || i.format.transform != nil {
		return c.wrote(c.Client.Apply(ctx, obj, opts...), obj, opts)
	}
	doc, err := client.NewApplyDocument(obj, c.Scheme())
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", i.id.kind.Kind, client.KeyOf(obj), err)
	}
	want := applied{document: i.documentHash(doc.Encoded, o)}
	objects, all := c.set.unknownWrites.affecting(i.id.kind.GroupKind(), obj.GetNamespace(), obj.GetName())
	if len(objects) == 0 && all == 0 && i.isApplied(want, obj) {
		return nil
	}
	if i.isAbsent(obj) {
		o.New = true
		opts = []client.WriteOption{o}
	}
	if err := c.wrote(c.Client.Patch(ctx, obj, doc, opts...), obj, opts); err != nil {
		return err
	}
	want.uid, want.version = obj.GetUID(), obj.GetResourceVersion()
	in, err := i.inScope(obj)
	i.mu.Lock()
	defer i.mu.Unlock()
	if err != nil || !in {
		return nil // outside of the scope, the copy never contains the object
	}
	i.applied[client.KeyOf(obj)] = want
	return nil
}

// informerThatHas returns the synced informer of obj's kind and type, or nil.
func (s *informers) informerThatHas(obj client.Object) *informer {
	kind, err := client.KindOf(obj, s.cfg.Client.Scheme())
	if err != nil {
		return nil
	}
	s.mu.Lock()
	i := s.members[id{kind, reflect.TypeOf(obj)}]
	s.mu.Unlock()
	if i == nil || !i.hasSynced() {
		return nil
	}
	return i
}

func (i *informer) hasSynced() bool {
	select {
	case <-i.synced:
		return true
	default:
		return false
	}
}

func (i *informer) documentHash(data []byte, o client.WriteOptions) uint64 {
	var h maphash.Hash
	h.SetSeed(i.seed)
	_, _ = h.Write(data)
	fmt.Fprintf(&h, "\x00%s\x00%s\x00%v", o.FieldOwner, o.FieldValidation, o.Force == nil || *o.Force)
	return h.Sum64()
}

// isApplied reports whether the object is unchanged since the same apply, and then copies it to
// obj.
func (i *informer) isApplied(want applied, obj client.Object) bool {
	key := client.KeyOf(obj)
	i.mu.Lock()
	was, ok := i.applied[key]
	state, has := i.objs.Get(key)
	if e, isPending := i.pending(key); isPending {
		state, has = e.obj, e.kind == present
	}
	i.mu.Unlock()
	want.uid, want.version = was.uid, was.version
	return ok && has && was == want && state.GetUID() == was.uid && state.GetResourceVersion() == was.version &&
		i.format.copyInto(state, obj) == nil
}

// isAbsent reports whether an object in the informer's scope is known not to exist.
func (i *informer) isAbsent(obj client.Object) bool {
	if in, err := i.inScope(obj); err != nil || !in {
		return false
	}
	key := client.KeyOf(obj)
	i.mu.Lock()
	defer i.mu.Unlock()
	if e, isPending := i.pending(key); isPending {
		return e.kind == gone
	}
	_, has := i.objs.Get(key)
	return !has
}
