// Package demo is an operator for a kind that has no Go types: it reads and writes fields by their
// names.
package demo

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// +kubebuilder:rbac:groups=example.com,resources=demos,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=example.com,resources=demos/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=example.com,resources=demos/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;patch;delete

// Finalizer keeps a Demo until its plaque is deleted.
const Finalizer = "example.com/plaque"

// PlaqueNamespace is the namespace of the plaques. Demos are in other namespaces and cannot own
// plaques, so they need a finalizer.
const PlaqueNamespace = metav1.NamespacePublic

// demoAnnotation of a plaque is the NAMESPACE/NAME of its Demo.
const demoAnnotation = "example.com/demo"

// Controller returns the part of the operator that reconciles Demos.
func Controller() operator.Part {
	return operator.For(newReconciler,
		operator.Kind(schema.GroupVersionKind{Group: Group, Version: "v1", Kind: Kind}),
		operator.Named("demo"), operator.FinalizerName(Finalizer), operator.Watches((*reconciler).demoOf))
}

type reconciler struct{ client operator.Client }

func newReconciler(c operator.Client) *reconciler { return &reconciler{c} }

// PlaqueName returns the name of a Demo's plaque, a ConfigMap.
func PlaqueName(namespace, name string) string { return fmt.Sprintf("demo-%s-%s", namespace, name) }

// demoOf returns a request for the Demo of a plaque that has changed.
func (r *reconciler) demoOf(_ context.Context, plaque *corev1.ConfigMap) []operator.Request {
	namespace, name, ok := strings.Cut(plaque.Annotations[demoAnnotation], "/")
	if !ok {
		return nil // another ConfigMap
	}
	return []operator.Request{{NamespacedName: client.Key{Namespace: namespace, Name: name}}}
}

// Reconcile applies the plaque and updates the status.
func (r *reconciler) Reconcile(ctx context.Context, demo *unstructured.Unstructured) (operator.Result, error) {
	name, _, _ := unstructured.NestedString(demo.Object, "spec", "name")
	size, _, _ := unstructured.NestedString(demo.Object, "spec", "size")
	replicas, _, _ := unstructured.NestedInt64(demo.Object, "spec", "replicas")
	err := r.client.Apply(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: PlaqueNamespace, Name: PlaqueName(demo.GetNamespace(), demo.GetName()),
			Annotations: map[string]string{demoAnnotation: demo.GetNamespace() + "/" + demo.GetName()},
		},
		Data: map[string]string{"text": fmt.Sprintf("%d × %s, %s", replicas, name, size)},
	})
	if err != nil {
		return operator.Result{}, err
	}
	return operator.Result{}, unstructured.SetNestedMap(demo.Object, map[string]any{
		"phase": "Shown", "replicas": replicas, "selector": "demo=" + demo.GetName(),
	}, "status")
}

// Finalize deletes the plaque.
func (r *reconciler) Finalize(ctx context.Context, demo *unstructured.Unstructured) (operator.Result, error) {
	plaque := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: PlaqueNamespace, Name: PlaqueName(demo.GetNamespace(), demo.GetName()),
	}}
	return operator.Result{}, client.IgnoreNotFound(r.client.Delete(ctx, plaque))
}
