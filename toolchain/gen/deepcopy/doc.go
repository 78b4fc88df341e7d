// Package deepcopy writes DeepCopy, DeepCopyInto and DeepCopyObject methods.
//
// They are made for the exported types of packages marked `+kubebuilder:object:generate=true` (or `+k8s:deepcopy-gen=package`), and for
// single types marked so; types marked `+kubebuilder:object:root=true` get DeepCopyObject too. A method that somebody wrote by hand is
// used, never written again. What cannot be copied deeply (an interface, a function, a channel) is an error at the field.
package deepcopy
