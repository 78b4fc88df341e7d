// Package deepcopy generates DeepCopy, DeepCopyInto and DeepCopyObject methods.
//
// It generates them for the exported types of packages marked `+kubebuilder:object:generate=true`
// (or `+k8s:deepcopy-gen=package`), and for single types with such a marker. Types marked
// `+kubebuilder:object:root=true` also get DeepCopyObject. Generated code calls hand-written
// methods, which are not generated again. A field that cannot be deep-copied (an interface, a
// function, a channel) is an error.
package deepcopy
