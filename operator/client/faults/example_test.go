package faults_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator/client"
	"kelson.dev/operator/client/faults"
	"kelson.dev/operator/internal/apitest"
)

func Example() {
	// in your tests: env.Client()
	real, err := client.New(client.Config{REST: apitest.New(apitest.Pods).REST()})
	if err != nil {
		panic(err)
	}
	c := faults.New(real)
	rule := c.On(faults.Call{Verb: faults.Create, Kind: "Pod"}).Times(1).Return(faults.Conflict)

	web := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	fmt.Println("conflict:", apierrors.IsConflict(c.Create(context.Background(), web)), rule.Hits())
	fmt.Println("then:", c.Create(context.Background(), web))
	// Output:
	// conflict: true 1
	// then: <nil>
}
