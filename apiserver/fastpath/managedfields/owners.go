package managedfields

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"kelson.dev/apiserver/fastpath/fieldset"
)

// identity identifies an owner of fields, within one version.
type identity struct{ name, operation, subresource string }

const (
	operationApply  = "Apply"
	operationUpdate = "Update"
)

// owner is a manager of an object, with the fields that it owns.
type owner struct {
	identity
	fields *fields
	time   int64 // in seconds since 1970; 0 if it has none
	at     int   // the position of its entry in the object, -1 if it is new
	dirty  bool  // its entry in the object is out of date
}

// owners are an object's managers, in order.
type owners []owner

func (all owners) find(id identity) int {
	return slices.IndexFunc(all, func(o owner) bool { return o.identity == id })
}

// sort sorts owners as the library does.
func (all owners) sort() {
	slices.SortStableFunc(all, func(a, b owner) int {
		return cmp.Or(cmp.Compare(a.operation, b.operation), cmp.Compare(a.time, b.time), cmp.Compare(a.name, b.name),
			cmp.Compare(a.subresource, b.subresource))
	})
}

// unowned are the fields that no manager owns. It must not be changed.
var unowned = fieldset.Unowned()

// maxUpdaters is the number of Update managers up to which the library keeps each manager apart.
// It merges the oldest beyond that.
const maxUpdaters = 10

// change is the difference between two states of an object, in the fields that managers can own.
type change struct {
	set, removed *fieldpath.Set // nil if empty
}

// changeOf returns the change of an encoded set of fields, which may be empty. It omits the set if
// self is the only owner in all, because no rule needs it then.
func changeOf(raw []byte, all owners, self identity) (c change, ok bool) {
	if len(raw) == 0 || len(all) == 1 && all[0].identity == self {
		return c, true
	}
	c.set = &fieldpath.Set{}
	return c, c.set.FromJSON(bytes.NewReader(raw)) == nil
}

// rules computes the owners of an object, independently of the object's representation. Both
// managers embed it.
type rules struct {
	cache       *Cache
	types       managedfields.TypeConverter
	kind        schema.GroupVersionKind
	version     string
	subresource string
	// trees means that objects have their field sets as trees, not encoded.
	trees bool
}

// schema returns a value with the schema of the version.
func (r *rules) schema() (*typed.TypedValue, error) {
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(r.kind)
	return r.types.ObjectToTyped(empty)
}

// keeps reports whether own contains all fields that self applied before, so that no field must be
// removed from the object.
func (r *rules) keeps(all owners, self identity, own *fields) bool {
	at := all.find(self)
	if at < 0 || all[at].fields == own {
		return true
	}
	had, err := all[at].fields.set()
	if err != nil {
		return false
	}
	has, err := own.set()
	return err == nil && contains(has, had)
}

// conflicts reports whether other managers own fields in c.set.
func (r *rules) conflicts(all owners, c change, self identity) bool {
	if c.set == nil {
		return false
	}
	for _, o := range all {
		if o.identity == self {
			continue
		}
		if set, err := o.fields.set(); err != nil || !disjoint(set, c.set) {
			return true
		}
	}
	return false
}

// afterApply returns the owners after self has applied the fields own, which caused the change c.
// If changed is false, self keeps the time of its last apply. ok is false if the library must
// decide, as it must for an apply without fields: the library then records no manager.
func (r *rules) afterApply(all owners, c change, self identity, own *fields, changed bool) (_ owners, ok bool) {
	if set, err := own.set(); err != nil || set.Empty() {
		return nil, false
	}
	all = slices.Clone(all) // if ok is false, the caller still needs the old ones
	at := all.find(self)
	switch {
	case at < 0:
		all = append(all, owner{identity: self, fields: own, at: -1})
	case all[at].fields != own:
		all[at].fields, all[at].dirty = own, true
	}
	if all, ok = r.withoutLost(all, c, self, own); !ok {
		return nil, false
	}
	if at = all.find(self); at < 0 {
		return nil, false
	}
	if changed {
		all[at].time, all[at].dirty = now(), true
	}
	return all, true
}

// afterUpdate returns the owners after self has set c.set and c.removed has been removed. ok is
// false if the library must decide.
func (r *rules) afterUpdate(all owners, c change, self identity) (_ owners, ok bool) {
	if all, ok = r.withoutLost(all, c, self, nil); !ok {
		return nil, false
	}
	if c.set == nil {
		return all, true
	}
	own := c.set.Difference(unowned)
	if own.Empty() {
		return all, true
	}
	at := all.find(self)
	if at < 0 {
		f, err := r.cache.ofSet(own, r.trees)
		if err != nil {
			return nil, false
		}
		all = append(all, owner{identity: self, fields: f, time: now(), at: -1})
		updaters := 0
		for _, o := range all {
			if o.operation == operationUpdate {
				updaters++
			}
		}
		return all, updaters <= maxUpdaters
	}
	o := &all[at]
	had, err := o.fields.set()
	if err != nil {
		return nil, false
	}
	if !contains(had, own) {
		f, err := r.cache.ofSet(own.Union(had), r.trees)
		if err != nil {
			return nil, false
		}
		o.fields = f
	}
	o.time, o.dirty = now(), true
	return all, true
}

// withoutLost returns the owners without the fields in c.removed and, except for self, without
// those in c.set. own are the fields that self has applied in this write, which fit the schema; nil
// if self has not applied.
func (r *rules) withoutLost(all owners, c change, self identity, own *fields) (owners, bool) {
	out := make(owners, 0, len(all)+1)
	for _, o := range all {
		if o.identity == self && o.fields == own && c.removed == nil {
			out = append(out, o)
			continue
		}
		if !o.fields.fits(r.version, r.schema) {
			return nil, false
		}
		if c.set == nil && c.removed == nil {
			out = append(out, o)
			continue
		}
		had, err := o.fields.set()
		if err != nil {
			return nil, false
		}
		has := had
		if c.set != nil && o.identity != self {
			if gone := has.Intersection(c.set); !gone.Empty() {
				has = has.Difference(gone)
			}
		}
		if c.removed != nil {
			if gone := has.Intersection(c.removed); !gone.Empty() {
				has = has.Difference(gone)
			}
		}
		if has != had {
			if has.Empty() {
				continue
			}
			if o.fields, err = r.cache.ofSet(has, r.trees); err != nil {
				return nil, false
			}
			o.dirty = true
		}
		out = append(out, o)
	}
	return out, true
}

// contains reports whether b is a subset of a.
func contains(a, b *fieldpath.Set) bool { return b.Difference(a).Empty() }

func disjoint(a, b *fieldpath.Set) bool { return a.Intersection(b).Empty() }

func now() int64 { return time.Now().Unix() }
