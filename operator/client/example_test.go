package client_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
)

func Example() {
	ctx := context.Background()
	server := apitest.New() // in a program: a rest.Config from a kubeconfig or the cluster
	c, err := client.New(client.Config{REST: server.REST(), FieldOwner: "example"})
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"red", "green", "blue"} {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		if err := c.Apply(ctx, cm); err != nil {
			panic(err)
		}
	}

	red, err := client.Get[corev1.ConfigMap](ctx, c, client.Key{Namespace: "default", Name: "red"})
	if err != nil {
		panic(err)
	}
	patch := client.MergeFrom(red, client.OptimisticLock)
	red.Data = map[string]string{"rgb": "f00"}
	if err := c.Patch(ctx, red, patch); err != nil {
		panic(err)
	}

	for cm, err := range client.Each[corev1.ConfigMap](ctx, c, client.InNamespace("default")) {
		if err != nil {
			panic(err)
		}
		fmt.Println(cm.Name, cm.Data)
	}
	// Output:
	// blue map[]
	// green map[]
	// red map[rgb:f00]
}

// A ConfigMap that exists needs no change.
func ExampleIgnoreAlreadyExists() {
	ctx := context.Background()
	c, err := client.New(client.Config{REST: apitest.New().REST()})
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"red", "red"} {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		err := c.Create(ctx, cm)
		fmt.Println(apierrors.IsAlreadyExists(err), client.IgnoreAlreadyExists(err))
	}
	other := errors.New("another error")
	fmt.Println(client.IgnoreAlreadyExists(other), client.IgnoreAlreadyExists(nil))
	// Output:
	// false <nil>
	// true <nil>
	// another error <nil>
}
