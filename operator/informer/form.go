package informer

import (
	"log/slog"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/client"
)

// Form is how an informer keeps the objects of a kind. It affects memory and time, but not the
// results of reads.
type Form int

const (
	// Full keeps decoded objects. Reads are fastest.
	Full Form = iota
	// Compact keeps encoded objects, stores what they have in common only once, and decodes on each
	// read. It takes a fraction of the memory.
	Compact
	// Metadata keeps and watches only metadata. Informers.Client reads complete objects from the
	// server. Handlers and the methods of the Informer get objects of their Go type with only
	// metadata set.
	Metadata
)

func (f Form) String() string {
	switch f {
	case Compact:
		return "compact"
	case Metadata:
		return "metadata"
	}
	return "full"
}

// format converts objects between what the server sends, what the copy of an informer has, and what
// readers get. It is safe for concurrent use.
type format struct {
	id        id
	log       *slog.Logger
	form      Form
	transform func(client.Object) client.Object // nil if there is none
	compact   *compact                          // for the form Compact
}

// formOf returns the form of a kind.
func (s *informers) formOf(kind schema.GroupKind) Form {
	if form, ok := s.forms[kind]; ok {
		return form
	}
	return s.cfg.Form
}

// idOf returns the id of the informer for a kind and type. In the form Metadata, all types of a
// kind share one informer.
func (s *informers) idOf(kind schema.GroupVersionKind, form reflect.Type) id {
	if s.formOf(kind.GroupKind()) == Metadata {
		form = reflect.TypeFor[*metav1.PartialObjectMetadata]()
	}
	return id{kind, form}
}

// isElsewhere reports whether informers of obj's kind keep only metadata, so that obj must be read
// from the server.
func (s *informers) isElsewhere(obj client.Object) bool {
	if isMetadata(reflect.TypeOf(obj)) {
		return false
	}
	kind, err := client.KindOf(obj, s.cfg.Client.Scheme())
	return err == nil && s.formOf(kind.GroupKind()) == Metadata
}
