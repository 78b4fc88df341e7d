package faults_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"kelson.dev/operator/client"
	"kelson.dev/operator/client/faults"
	"kelson.dev/operator/internal/apitest"
)

func Example() {
	// in your tests: env.Client()
	real, err := client.New(client.Config{REST: apitest.New().REST()})
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

func ExampleTransport() {
	ctx := context.Background()
	config := apitest.New().REST() // in your tests: env.RESTConfig()
	faulty := faults.NewTransport(nil)
	config.Wrap(faulty.Wrap)
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		panic(err)
	}
	pods := clientset.CoreV1().Pods("default")
	web, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{})
	if err != nil {
		panic(err)
	}

	faulty.On(faults.Call{Verb: faults.Update, Resource: "pods"}).Times(2).Return(faults.Conflict)
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		web.Labels = map[string]string{"checked": "yes"}
		_, err := pods.Update(ctx, web, metav1.UpdateOptions{})
		return err
	})
	fmt.Println("error:", err)
	for _, call := range faulty.Calls() {
		fmt.Println(call.Verb, call.Resource, call.Namespace, call.Name)
	}
	// Output:
	// error: <nil>
	// create pods default web
	// update pods default web
	// update pods default web
	// update pods default web
}

// A watch whose events arrive late, and which then ends as if the server had compacted its history.
func ExampleRule_Hold() {
	ctx := context.Background()
	config := apitest.New().REST() // in your tests: env.RESTConfig()
	faulty := faults.NewTransport(nil)
	config.Wrap(faulty.Wrap)
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		panic(err)
	}
	pods := clientset.CoreV1().Pods("default")
	late := faulty.On(faults.Call{Verb: faults.Event, Name: "web"}).Hold()
	faulty.On(faults.Call{Verb: faults.Event, Name: "db"}).Return(faults.Expired)

	events, err := pods.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"web", "db"} {
		if _, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{}); err != nil {
			panic(err)
		}
	}
	select {
	case e := <-events.ResultChan():
		fmt.Println("too early:", e)
	default:
		fmt.Println("nothing has arrived")
	}
	late.Release()
	for e := range events.ResultChan() {
		switch obj := e.Object.(type) {
		case *corev1.Pod:
			fmt.Println(e.Type, obj.Name)
		case *metav1.Status:
			fmt.Println(e.Type, obj.Reason)
		}
	}
	// Output:
	// nothing has arrived
	// ADDED web
	// ERROR Expired
}
