package builtin_test

import (
	"fmt"

	"kelson.dev/apiserver/resource"
	"kelson.dev/kubernetes/builtin"
)

func ExampleResources() {
	resources, err := builtin.Resources(builtin.Config{ServiceRange: "10.96.0.0/16"})
	if err != nil {
		fmt.Println(err)
		return
	}
	registry := resource.NewRegistry(resources...)
	pods, _ := registry.Current().ByPrefix("pods")

	hub, strict, err := pods.Codec.Decode([]byte(`{"metadata":{"name":"p"},"spec":{"contaners":[]}}`),
		resource.MediaJSON, "v1")
	fmt.Println(hub != nil, strict, err)
	// Output: true [unknown field "spec.contaners"] <nil>
}
