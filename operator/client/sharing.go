package client

import (
	"hash/maphash"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/operator/internal/messages"
)

// sharing is what values have in common that were decoded from one stream: equal strings and, if nobody will ever change the values,
// equal parts: of managedFields, and of what is read from protobuf, of everything. It is for one goroutine. A nil sharing shares nothing.
type sharing struct {
	seed    maphash.Seed
	strings [stringSlots][2]string    // by hash, the one that was used last first
	trees   map[string]map[string]any // encoded → decoded; nil if values may be changed
	fields  map[string]*metav1.FieldsV1
	parts   *messages.Parts // nil if values may be changed
}

const (
	stringSlots = 512
	// maxShared is the longest string that is looked up, maxTrees the number of trees that are kept.
	maxShared = 64
	maxTrees  = 512
)

// newSharing shares strings, and trees if the values are immutable.
func newSharing(immutable bool) *sharing {
	s := &sharing{seed: maphash.MakeSeed()}
	if immutable {
		s.trees, s.fields, s.parts = map[string]map[string]any{}, map[string]*metav1.FieldsV1{}, &messages.Parts{}
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

// FieldsV1 implements [structs.Sharing].
func (s *sharing) FieldsV1(raw []byte) *metav1.FieldsV1 { return s.fields[string(raw)] }

// Parts implements [messages.Sharing].
func (s *sharing) Parts() *messages.Parts { return s.parts }

// all is what an object has in common that is read into what is new.
func (s *sharing) all() messages.Sharing {
	if s == nil {
		return nil
	}
	return s
}

// texts is all but the parts.
func (s *sharing) texts() messages.Sharing {
	if s == nil {
		return nil
	}
	return textsOf{s}
}

type textsOf struct{ *sharing }

func (textsOf) Parts() *messages.Parts { return nil }

// object lets the managedFields of an object, or of the items of a list, be those of earlier ones.
func (s *sharing) object(obj runtime.Object) {
	if s == nil || s.fields == nil {
		return
	}
	if _, isList := obj.(ObjectList); isList {
		if _, isObject := obj.(Object); !isObject {
			_ = meta.EachListItem(obj, func(item runtime.Object) error { s.object(item); return nil }) // never fails
			return
		}
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
