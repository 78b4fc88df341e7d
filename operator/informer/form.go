package informer

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator/client"
)

// Form is how an informer keeps the objects of a kind. It changes memory and time, not what is read.
type Form int

const (
	// Full keeps objects decoded: the fastest to read.
	Full Form = iota
	// Compact keeps objects encoded, with what they have in common kept once, and decodes on each read: several times smaller.
	Compact
	// Metadata keeps and watches metadata only. Whole objects are read from the server, by Informers.Client; handlers, and reads
	// of the Informer itself, get objects of their type with nothing set but metadata.
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

// formOf is how informers of a kind keep what they hold.
func (s *informers) formOf(kind schema.GroupKind) Form {
	if form, own := s.forms[kind]; own {
		return form
	}
	return s.cfg.Form
}

// idOf is the informer that has objects of a kind and type: of a kind whose metadata alone are kept, there is but one.
func (s *informers) idOf(kind schema.GroupVersionKind, form reflect.Type) id {
	if s.formOf(kind.GroupKind()) == Metadata {
		form = reflect.TypeFor[*metav1.PartialObjectMetadata]()
	}
	return id{kind, form}
}

// isElsewhere says that the informers of obj's kind have too little of it to read it from them.
func (s *informers) isElsewhere(obj client.Object) bool {
	if isMetadata(reflect.TypeOf(obj)) {
		return false
	}
	kind, err := client.KindOf(obj, s.cfg.Client.Scheme())
	return err == nil && s.formOf(kind.GroupKind()) == Metadata
}
