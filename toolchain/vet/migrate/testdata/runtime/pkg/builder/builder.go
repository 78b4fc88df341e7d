package builder

import (
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type TypedBuilder[request comparable] struct{}

type Builder = TypedBuilder[reconcile.Request]

func ControllerManagedBy(m manager.Manager) *Builder { return &Builder{} }

func (b *TypedBuilder[request]) For(obj client.Object) *TypedBuilder[request]  { return b }
func (b *TypedBuilder[request]) Owns(obj client.Object) *TypedBuilder[request] { return b }
func (b *TypedBuilder[request]) WatchesMetadata(obj client.Object) *TypedBuilder[request] {
	return b
}
func (b *TypedBuilder[request]) WithOptions(o controller.TypedOptions[request]) *TypedBuilder[request] {
	return b
}
func (b *TypedBuilder[request]) Complete(r any) error { return nil }
