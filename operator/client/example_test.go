package client_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator/client"
	"kelson.dev/operator/client/clienttest"
)

func Example() {
	ctx := context.Background()
	server := clienttest.New() // in a program: a rest.Config from a kubeconfig or the cluster
	c, err := client.New(client.Config{REST: server.RESTConfig(), FieldOwner: "example"})
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
