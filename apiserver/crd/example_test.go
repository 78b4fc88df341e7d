package crd_test

import (
	"context"
	"fmt"

	"kelson.dev/apiserver/crd"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest"
	"kelson.dev/apiserver/store"
)

// A control plane consists of a store, kinds and verbs. Objects is a function, because the verbs
// are created last and the definitions need them to remove instances.
func Example() {
	st, err := store.Open(store.Config{})
	if err != nil {
		panic(err)
	}
	defer st.Close()
	registry := resource.NewRegistry()
	verbs := rest.New(rest.Config{Store: st, Registry: registry})
	definitions, err := crd.New(crd.Config{Store: st, Registry: registry, Objects: func() resource.Objects {
		return verbs
	}})
	if err != nil {
		panic(err)
	}
	registry.Put(definitions.Resource())
	if err := definitions.Load(); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- definitions.Run(ctx) }()

	for _, res := range registry.Current().All() {
		fmt.Println(res.GroupResource())
	}
	cancel()
	fmt.Println(<-done)
	// Output:
	// customresourcedefinitions.apiextensions.k8s.io
	// <nil>
}
