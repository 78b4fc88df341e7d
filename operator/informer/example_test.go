package informer_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/internal/apitest"
)

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	direct, err := client.New(client.Config{REST: apitest.New().REST()})
	if err != nil {
		panic(err)
	}
	informers, err := informer.New(informer.Config{Client: direct})
	if err != nil {
		panic(err)
	}
	go informers.Run(ctx)

	// Reads use the informers, and include the client's previous writes.
	c := informers.Client()
	for _, name := range []string{"a", "b"} {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		if err := c.Create(ctx, cm); err != nil {
			panic(err)
		}
	}
	list, err := client.List[corev1.ConfigMap](ctx, c, client.InNamespace("default"))
	if err != nil {
		panic(err)
	}
	for _, cm := range list {
		fmt.Println(cm.Name)
	}
	// Output:
	// a
	// b
}
