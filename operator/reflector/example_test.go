package reflector_test

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator/reflector"
)

// The protocol alone, without a server: a list, then what to do next.
func ExampleMachine() {
	type object = *metav1.PartialObjectMetadata
	m := reflector.Machine[object]{PageSize: 500}
	_, next := m.Step(reflector.Start[object]{})
	fmt.Println(next.Do == reflector.List, next.Limit)

	pod := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "web", ResourceVersion: "6"}}
	deltas, next := m.Step(reflector.Page[object]{Items: []object{pod}, Version: "7"})
	fmt.Println(deltas[0].Op == reflector.Replace, len(deltas[0].Items), next.Do == reflector.Watch, next.Version)
	// Output:
	// true 500
	// true 1 true 7
}
