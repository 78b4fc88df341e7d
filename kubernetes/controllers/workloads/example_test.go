package workloads_test

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/authentication/user"
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
		unreachable := func(user.Info) *rest.Config { return &rest.Config{Host: "http://unreachable.invalid"} }
		done <- workloads.New(workloads.Config{Store: st, As: unreachable}).Run(ctx)
	}()
	cancel()
	fmt.Println(<-done)
	// Output: <nil>
}
