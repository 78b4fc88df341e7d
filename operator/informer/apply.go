package informer

import (
	"context"
	"fmt"
	"hash/maphash"
	"reflect"

	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator/client"
)

// applied is what an apply came to: the document with all its options, and the object that the server answered. As long as the object
// has not changed since, the same apply would change nothing.
type applied struct {
	document uint64 // its hash
	uid      types.UID
	version  string
}

// Apply sends nothing if it would change nothing: when the same was applied before, and nobody has changed the object since. Reconcilers
// apply what they want each time they run, and most times that is what there is.
func (c cached) Apply(ctx context.Context, obj client.Object, opts ...client.WriteOption) error {
	o := client.NewWriteOptions(opts...)
	i := c.set.informerThatHas(obj)
	if o.DryRun || i == nil || c.set.cfg.Transform != nil { // a copy that was transformed is not what the server would answer
		return c.wrote(c.Client.Apply(ctx, obj, opts...), obj, opts)
	}
	doc, err := client.NewApplyDocument(obj, c.Scheme())
	if err != nil {
		return fmt.Errorf("apply %s %s: %w", i.id.kind.Kind, client.KeyOf(obj), err)
	}
	want := applied{document: i.documentHash(doc.Encoded, o)}
	if i.isApplied(want, obj) {
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
		return nil // the copy will never have it
	}
	i.applied[client.KeyOf(obj)] = want
	return nil
}

// informerThatHas is the synced informer of obj's kind and type, if there is one.
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

// isApplied says that the object is as it was after the same apply, and makes obj that object.
func (i *informer) isApplied(want applied, obj client.Object) bool {
	key := client.KeyOf(obj)
	i.mu.Lock()
	was, ok := i.applied[key]
	state, has := i.objs.Get(key)
	if e, isNews := i.news(key); isNews {
		state, has = e.obj, e.what == present
	}
	i.mu.Unlock()
	want.uid, want.version = was.uid, was.version
	return ok && has && was == want && state.GetUID() == was.uid && state.GetResourceVersion() == was.version && i.copyInto(state, obj) == nil
}

// isAbsent says that there is no such object, as far as is known, although the informer would have it.
func (i *informer) isAbsent(obj client.Object) bool {
	if in, err := i.inScope(obj); err != nil || !in {
		return false
	}
	key := client.KeyOf(obj)
	i.mu.Lock()
	defer i.mu.Unlock()
	if e, isNews := i.news(key); isNews {
		return e.what == gone
	}
	_, has := i.objs.Get(key)
	return !has
}
