// Package deepcopy generates DeepCopy, DeepCopyInto and DeepCopyObject methods.
//
// It generates them for the exported types of packages marked `+kubebuilder:object:generate=true`
// (or `+k8s:deepcopy-gen=package`), and for single types with such a marker. Types marked
// `+kubebuilder:object:root=true` also get DeepCopyObject. Generated code calls hand-written
// methods, which are not generated again. It copies values of generic types and of unexported
// types, which get no methods, in place. A field that cannot be deep-copied is an error: an
// interface, a function, a channel, or a type of another module that has pointers but no
// DeepCopyInto, such as time.Time.
package deepcopy
