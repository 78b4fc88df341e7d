package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

var (
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1",
		Resource: "customresourcedefinitions"}
	widgets = schema.GroupVersionResource{Group: "bench.kelson.dev", Version: "v1", Resource: "widgets"}
)

// envtests is the number of parallel tests with a kube-apiserver of their own. A hundred would need
// 30 GiB.
const envtests = 4

// inParallel runs tests in parallel. Each has its own control plane, installs a definition, creates
// ten objects and receives them in a watch.
func (o *options) inParallel(ctx context.Context) ([]row, error) {
	ours, err := together(ctx, o.tests, func(ctx context.Context, _ int) error {
		plane, err := start(ctx, nil)
		if err != nil {
			return err
		}
		defer plane.Stop()
		return test(ctx, plane.RESTConfig(), metav1.NamespaceDefault)
	})
	if err != nil {
		return nil, err
	}
	rows := []row{
		{fmt.Sprintf("%d tests in parallel, each with a control plane of its own", o.tests), "", seconds(ours), ""},
		{"… for each test", "", milliseconds(ours / time.Duration(o.tests)), ""},
	}
	if o.peers == "" {
		return rows, nil
	}
	assets, err := filepath.Abs(o.peers)
	if err != nil {
		return nil, err
	}
	theirs, err := together(ctx, envtests, func(ctx context.Context, _ int) error {
		env := &envtest.Environment{BinaryAssetsDirectory: assets}
		config, err := env.Start()
		if err != nil {
			return err
		}
		config.QPS = -1
		return errors.Join(test(ctx, config, metav1.NamespaceDefault), env.Stop())
	})
	if err != nil {
		return nil, fmt.Errorf("envtest: %w", err)
	}
	rows[0].envtest = fmt.Sprintf("%s for %d tests", seconds(theirs), envtests)
	rows[1].envtest = milliseconds(theirs / envtests)
	shared, err := o.shared(ctx, assets)
	if err != nil {
		return nil, fmt.Errorf("envtest: %w", err)
	}
	return append(rows, row{fmt.Sprintf("%d tests in parallel that share one server, in namespaces of their own, with its start and stop", o.tests), "", "", seconds(shared)}), nil
}

// shared runs the tests on one envtest.
func (o *options) shared(ctx context.Context, assets string) (time.Duration, error) {
	begun := time.Now()
	env := &envtest.Environment{BinaryAssetsDirectory: assets}
	config, err := env.Start()
	if err != nil {
		return 0, err
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err == nil {
		_, err = together(ctx, o.tests, func(ctx context.Context, i int) error {
			namespace := fmt.Sprint("test-", i)
			_, err := client.Resource(namespaces).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace},
			}}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
			return test(ctx, config, namespace)
		})
	}
	err = errors.Join(err, env.Stop())
	return time.Since(begun), err
}

// together runs n tests at the same time.
func together(ctx context.Context, n int, test func(ctx context.Context, i int) error) (time.Duration, error) {
	begun := time.Now()
	errs := make([]error, n)
	var tests sync.WaitGroup
	for i := range n {
		tests.Go(func() { errs[i] = test(ctx, i) })
	}
	tests.Wait()
	return time.Since(begun), errors.Join(errs...)
}

// test installs a definition, creates ten objects in a namespace and waits until a watch has seen
// them.
func test(ctx context.Context, config *rest.Config, namespace string) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := install(ctx, client); err != nil {
		return err
	}
	objects := client.Resource(widgets).Namespace(namespace)
	events, err := objects.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer events.Stop()
	const created = 10
	for i := range created {
		if _, err := objects.Create(ctx, widget(i), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for seen := 0; seen < created; {
		event, ok := <-events.ResultChan()
		switch {
		case !ok:
			return errors.New("the watch has ended")
		case event.Type == watch.Added:
			seen++
		case event.Type == watch.Error:
			return apierrors.FromObject(event.Object)
		}
	}
	return nil
}

// install creates the definition of widgets, if it does not exist, and waits until they are served.
func install(ctx context.Context, client dynamic.Interface) error {
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets.bench.kelson.dev"},
		"spec": map[string]any{
			"group": "bench.kelson.dev", "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget",
				"listKind": "WidgetList"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{
					"type": "object", "properties": map[string]any{
						"spec": map[string]any{"type": "object",
							"properties": map[string]any{"count": map[string]any{"type": "integer"}}}},
				}}}},
		},
	}}
	if _, err := client.Resource(definitions).Create(ctx, definition, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		return err
	}
	for {
		_, err := client.Resource(widgets).List(ctx, metav1.ListOptions{})
		if !apierrors.IsNotFound(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func widget(i int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "bench.kelson.dev/v1", "kind": "Widget", "metadata": map[string]any{"name": fmt.Sprint("w", i)},
		"spec": map[string]any{"count": int64(i)},
	}}
}
