package client

import (
	"hash/maphash"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/operator/internal/protodecode"
)

// sharing holds parts that values decoded from one stream have in common: equal strings and, if no
// caller ever modifies the values, equal subtrees (managedFields, and any part of a protobuf
// message). It is for use by one goroutine. A nil *sharing shares nothing.
type sharing struct {
	seed    maphash.Seed
	strings [stringSlots][2]string    // by hash, most recently used first
	trees   map[string]map[string]any // encoded → decoded; nil if callers may modify values
	fields  map[string]*metav1.FieldsV1
	parts   *protodecode.Parts // nil if callers may modify values
}

const (
	stringSlots = 512
	// maxShared is the length of the longest string that is shared, maxTrees the number of trees
	// that are kept.
	maxShared = 64
	maxTrees  = 512
)

// newSharing shares strings, and also trees if the values are immutable.
func newSharing(immutable bool) *sharing {
	s := &sharing{seed: maphash.MakeSeed()}
	if immutable {
		s.trees, s.fields, s.parts = map[string]map[string]any{}, map[string]*metav1.FieldsV1{}, &protodecode.Parts{}
	}
	return s
}

// Text implements [tree.Sharing].
func (s *sharing) Text(b []byte) string {
	if len(b) > maxShared || len(b) == 0 {
		return string(b)
	}
	slot := &s.strings[maphash.Bytes(s.seed, b)%stringSlots]
	switch {
	case slot[0] == string(b):
	case slot[1] == string(b):
		slot[0], slot[1] = slot[1], slot[0]
	default:
		slot[0], slot[1] = string(b), slot[0]
	}
	return slot[0]
}

// Fields implements [tree.Sharing].
func (s *sharing) Fields(raw []byte) (map[string]any, bool) {
	known, ok := s.trees[string(raw)]
	return known, ok
}

// Keep implements [tree.Sharing].
func (s *sharing) Keep(raw []byte, tree map[string]any) {
	if s.trees != nil && len(s.trees) < maxTrees {
		s.trees[string(raw)] = tree
	}
}

// FieldsV1 implements [jsondecode.Sharing].
func (s *sharing) FieldsV1(raw []byte) *metav1.FieldsV1 { return s.fields[string(raw)] }

// Parts implements [protodecode.Sharing].
func (s *sharing) Parts() *protodecode.Parts { return s.parts }

// all returns the sharing for decoding into a new value.
func (s *sharing) all() protodecode.Sharing {
	if s == nil {
		return nil
	}
	return s
}

// texts returns the sharing without the parts.
func (s *sharing) texts() protodecode.Sharing {
	if s == nil {
		return nil
	}
	return textsOf{s}
}

type textsOf struct{ *sharing }

func (textsOf) Parts() *protodecode.Parts { return nil }

// object replaces the managedFields of an object, or of the items of a list, by equal ones decoded
// earlier.
func (s *sharing) object(obj runtime.Object) {
	if s == nil || s.fields == nil {
		return
	}
	if isList(obj) {
		// returns only errors of the function
		_ = meta.EachListItem(obj, func(item runtime.Object) error { s.object(item); return nil })
		return
	}
	o, ok := obj.(metav1.Object)
	if !ok {
		return
	}
	entries := o.GetManagedFields()
	for n, entry := range entries {
		if entry.FieldsV1 == nil {
			continue
		}
		raw := entry.FieldsV1.GetRawBytes()
		known := s.fields[string(raw)]
		if known == nil {
			if len(s.fields) >= maxTrees {
				continue
			}
			known = entry.FieldsV1
			s.fields[string(raw)] = known
		}
		entries[n].FieldsV1 = known
	}
}
