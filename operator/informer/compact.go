package informer

import (
	"fmt"
	"reflect"
	"sync"
	"unique"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/pack"
)

// packed is an object in the form Compact. Only its name, namespace, uid and resourceVersion are
// decoded; see informer.whole for the rest.
type packed struct {
	client.Object // nil

	namespace, name string
	uid             types.UID
	version         string
	data            pack.Packed
}

func (p *packed) GetNamespace() string       { return p.namespace }
func (p *packed) GetName() string            { return p.name }
func (p *packed) GetUID() types.UID          { return p.uid }
func (p *packed) GetResourceVersion() string { return p.version }

// compact is the additional state of an informer in the form Compact.
type compact struct {
	packer *pack.Packer
	spaces sync.Pool // *[]byte

	mu sync.Mutex
	// the objects decoded last: each index function is called with them separately
	recent [2]struct {
		packed *packed
		whole  client.Object
	}
}

func newCompact() *compact { return &compact{packer: pack.New()} }

// keep returns how the copy has an object from the server.
func (i *informer) keep(obj client.Object) client.Object {
	// When a list is read again, most objects are unchanged: keep the old ones, so that the new
	// ones can be freed.
	if old, ok := i.objs.Get(client.KeyOf(obj)); ok && isUnchanged(old, obj) {
		return old
	}
	return i.format.of(obj)
}

// of converts an object from the server.
func (f *format) of(obj client.Object) client.Object {
	e, encoded := obj.(*client.Encoded)
	if !encoded {
		if f.transform != nil {
			obj = client.Transformed(obj, f.transform)
		}
		return obj
	}
	data := e.Data
	if f.transform != nil {
		whole := f.newObject()
		err := client.Decode(data, whole, f.id.kind)
		if err == nil {
			data, err = client.Encode(client.Transformed(whole, f.transform), f.id.kind)
		}
		if err != nil {
			f.garbled(e, err)
			data = e.Data
		}
	}
	// One string instead of three saves two allocations.
	text := e.Name + string(e.UID) + e.ResourceVersion
	n, u := len(e.Name), len(e.Name)+len(e.UID)
	return &packed{
		namespace: unique.Make(e.Namespace).Value(), name: text[:n], uid: types.UID(text[n:u]), version: text[u:],
		data: f.compact.packer.Pack(data),
	}
}

// open calls read with the encoded object, which is valid only during the call.
func (f *format) open(p *packed, read func(data []byte) error) error {
	space, _ := f.compact.spaces.Get().(*[]byte)
	if space == nil {
		space = new([]byte)
	}
	*space = p.data.Unpack((*space)[:0])
	err := read(*space)
	f.compact.spaces.Put(space)
	return err
}

// copyInto sets into to a private copy of an object of the copy or the overlay.
func (f *format) copyInto(obj, into client.Object) error {
	if p, ok := obj.(*packed); ok {
		return f.open(p, func(data []byte) error { return client.Decode(data, into, f.id.kind) })
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(obj.DeepCopyObject()).Elem())
	return nil
}

// whole returns the decoded object, which may be shared. If decoding fails, it logs the error and
// returns nil.
func (f *format) whole(obj client.Object) client.Object {
	p, ok := obj.(*packed)
	if !ok {
		return obj
	}
	into := f.newObject()
	if err := f.copyInto(p, into); err != nil {
		f.garbled(p, err)
		return nil
	}
	return into
}

func (f *format) allWhole(objs []client.Object) []client.Object {
	if f.form != Compact {
		return objs
	}
	whole := objs[:0]
	for _, obj := range objs {
		if obj = f.whole(obj); obj != nil {
			whole = append(whole, obj)
		}
	}
	return whole
}

// garbled logs an object that does not decode into its Go type. Forms that keep decoded objects
// fail the list instead; here the error shows when the object is read.
func (f *format) garbled(obj client.Object, err error) {
	f.log.Error("informer cannot decode object", "object", client.KeyOf(obj), "err", err)
}

// labelsOf returns the labels of an object of the copy.
func (f *format) labelsOf(obj client.Object) (labels.Set, error) {
	p, ok := obj.(*packed)
	if !ok {
		return obj.GetLabels(), nil
	}
	var set labels.Set
	err := f.open(p, func(data []byte) error {
		m, err := client.MetadataOf(data)
		if err == nil {
			set = m.Labels
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", f.id.kind.Kind, client.KeyOf(obj), err)
	}
	return set, nil
}

// indexed returns the decoded object for an index function, and caches the last few objects.
func (c *compact) indexed(i *informer, obj client.Object) client.Object {
	p, ok := obj.(*packed)
	if !ok {
		return obj
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.recent {
		if r.packed == p {
			return r.whole
		}
	}
	whole := i.format.whole(obj)
	c.recent[1] = c.recent[0]
	c.recent[0].packed, c.recent[0].whole = p, whole
	return whole
}
