// Package fieldset encodes field sets as metadata.managedFields stores them, in one walk over an
// object and its [shape.Shape]. The fast paths of field ownership share it, for custom and for
// built-in kinds.
//
//	w := fieldset.NewWriter()
//	defer w.Free()
//	if w.Object(configuration, shape, fieldset.Options{}) {
//		use(bytes.Clone(w.Raw)) // {"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:replicas":{}}}
//	}
//
// Kubernetes' merge library defines the encoding. It builds a tree of typed values and a set of
// paths, and encodes the set. A Writer is not safe for concurrent use.
package fieldset
