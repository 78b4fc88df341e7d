package crd

import (
	"fmt"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/apiserver/store"
)

// errDefaults is the error for an object to which the defaults of the schema would add more than a
// store accepts. A default of 100 KB for the elements of a list and an object with ten thousand
// empty elements would make a gigabyte of 65 KB. For clients it is kube-apiserver's error, which
// completes the object and then finds that etcd refuses it.
var errDefaults = fmt.Errorf("the defaults of the schema add more than %d bytes: %w", store.MaxObject,
	store.ErrTooLarge)

// defaults has the shape of a schema, without the parts that have no defaults. It does the same as
// Kubernetes' defaulting.Default, but it can compute how much it would add, and it never takes time
// for the properties of a schema that have no defaults. nil is a schema without defaults.
type defaults struct {
	value    any   // the default itself; nil: none
	size     int64 // of value as JSON, with the defaults that it gets itself
	nullable bool  // value does not replace null

	filled     map[string]*defaults // properties with a value
	inside     map[string]*defaults // properties that may contain others with a value
	known      map[string]bool      // all properties, if additional is set
	additional *defaults            // of the other members of an object
	items      *defaults
}

// defaultsOf returns the defaults of a schema, or nil if it has none.
func defaultsOf(s *structuralschema.Structural) *defaults {
	if s == nil {
		return nil
	}
	d := &defaults{value: s.Default.Object, nullable: s.Nullable, items: defaultsOf(s.Items)}
	for name := range s.Properties {
		property := s.Properties[name]
		in := defaultsOf(&property)
		if in == nil {
			continue
		}
		if in.value != nil {
			d.filled = with(d.filled, name, in)
		}
		if in.nests() {
			d.inside = with(d.inside, name, in)
		}
	}
	if s.AdditionalProperties != nil {
		d.additional = defaultsOf(s.AdditionalProperties.Structural)
	}
	if d.additional != nil {
		d.known = map[string]bool{}
		for name := range s.Properties {
			d.known[name] = true
		}
	}
	if d.value == nil && !d.nests() {
		return nil
	}
	if d.value != nil {
		left := int64(store.MaxObject)
		d.reserve(&left, sizeOf(d.value))
		d.fits(d.value, &left)
		d.size = store.MaxObject - left
	}
	return d
}

func with(m map[string]*defaults, name string, in *defaults) map[string]*defaults {
	if m == nil {
		m = map[string]*defaults{}
	}
	m[name] = in
	return m
}

// nests reports whether parts of a value may get defaults.
func (d *defaults) nests() bool {
	return d.filled != nil || d.inside != nil || d.additional != nil || d.items != nil
}

// replaces reports whether the default replaces a value.
func (d *defaults) replaces(value any) bool { return value == nil && d.value != nil && !d.nullable }

// reserve subtracts a size and reports whether something is left.
func (d *defaults) reserve(left *int64, size int64) bool {
	*left -= size
	return *left >= 0
}

// fits subtracts the bytes that apply would add to a value from left. It returns false as soon as
// none are left. It takes no longer than apply does for an object that fits.
func (d *defaults) fits(value any, left *int64) bool {
	if d == nil {
		return true
	}
	switch v := value.(type) {
	case map[string]any:
		for name, property := range d.filled {
			if now, found := v[name]; (!found || property.replaces(now)) &&
				!property.reserve(left, int64(len(name))+4+property.size) {
				return false
			}
		}
		return d.each(v, func(name string, in *defaults, member any) bool {
			switch {
			case !in.replaces(member):
				return in.fits(member, left)
			case d.filled[name] == in: // counted above
				return true
			}
			return in.reserve(left, in.size)
		})
	case []any:
		if d.items == nil {
			return true
		}
		for _, element := range v {
			if d.items.replaces(element) && !d.items.reserve(left, d.items.size) || !d.items.fits(element, left) {
				return false
			}
		}
	}
	return true
}

// apply adds the defaults to a value, which may already have some.
func (d *defaults) apply(value any) {
	if d == nil {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for name, property := range d.filled {
			if now, found := v[name]; !found || property.replaces(now) {
				v[name] = runtime.DeepCopyJSONValue(property.value)
			}
		}
		d.each(v, func(name string, in *defaults, member any) bool {
			if in.replaces(member) {
				member = runtime.DeepCopyJSONValue(in.value)
				v[name] = member
			}
			in.apply(member)
			return true
		})
	case []any:
		if d.items == nil {
			return
		}
		for i, element := range v {
			if d.items.replaces(element) {
				v[i] = runtime.DeepCopyJSONValue(d.items.value)
			}
			d.items.apply(v[i])
		}
	}
}

// each calls do with the members of an object that may contain defaults, until it returns false.
func (d *defaults) each(object map[string]any, do func(name string, in *defaults, member any) bool) bool {
	if d.additional == nil && len(d.inside) <= len(object) {
		for name, in := range d.inside {
			if member, ok := object[name]; ok && !do(name, in, member) {
				return false
			}
		}
		return true
	}
	for name, member := range object {
		in := d.inside[name]
		if in == nil && !d.known[name] {
			in = d.additional
		}
		if in != nil && !do(name, in, member) {
			return false
		}
	}
	return true
}

// sizeOf returns the approximate size of a value as JSON.
func sizeOf(value any) int64 {
	size := int64(2)
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			size += int64(len(name)) + 4 + sizeOf(member)
		}
	case []any:
		for _, element := range v {
			size += 1 + sizeOf(element)
		}
	case string:
		size += int64(len(v))
	}
	return size
}
