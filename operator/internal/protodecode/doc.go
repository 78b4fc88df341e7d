// Package protodecode decodes protobuf messages into the Go structs of Kubernetes' API.
//
//	var pod corev1.Pod
//	if !protodecode.Decode(data, &pod, share) {
//		pod = corev1.Pod{}
//		err = pod.Unmarshal(data) // returns a good error message
//	}
//
// The result is that of the generated Unmarshal, with less memory: strings are shared with earlier
// ones, slices and maps are allocated in their final size, and immutable objects share equal parts.
// How to decode a type is computed once from its tags.
//
// The package decodes what marshalers write: fields in the order of their numbers. All other input,
// malformed or only unusual, and types with a custom encoding must be decoded by the generated
// code.
package protodecode
