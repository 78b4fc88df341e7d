// Package messages reads protobuf messages into the Go structs of Kubernetes' API.
//
//	var pod corev1.Pod
//	if !messages.Decode(data, &pod, share) {
//		pod = corev1.Pod{}
//		err = pod.Unmarshal(data) // it knows what to say of what is wrong
//	}
//
// It gives what the generated Unmarshal gives, in less memory: texts that were read before are not made anew, slices and maps are made as
// large as they will be, and parts of immutable objects can be those of earlier ones. How to read a type is worked out once from its tags.
//
// What is read is what marshalers write: fields in the order of their numbers. All else, whether it is malformed or only unusual, is left to
// the generated code, and so are types that have a meaning of their own.
package messages
