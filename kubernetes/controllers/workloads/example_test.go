package workloads_test

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/controllers/workloads"
)

// Without objects of their kinds, the controllers send no request and need no server.
func Example() {
	st, err := store.Open(store.Config{})
	if err != nil {
		panic(err)
	}
	defer st.Close()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- workloads.New(workloads.Config{Store: st, REST: &rest.Config{Host: "http://unreachable.invalid"}}).Run(ctx)
	}()
	cancel()
	fmt.Println(<-done)
	// Output: <nil>
}
