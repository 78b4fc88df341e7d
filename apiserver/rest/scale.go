package rest

import (
	"sync"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"kelson.dev/apiserver/resource"
)

// The replicas of an object and of its Scale are the same field under two names. For a write to the
// scale, managedFields are converted to those of a Scale, updated, and converted back.

// scaleManager tracks the owners of the Scale of a custom kind. It deduces the types of fields from
// the objects, because a Scale is simple enough.
var scaleManager = sync.OnceValues(func() (resource.FieldManager, error) {
	scheme := runtime.NewScheme()
	if err := autoscalingv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return managedfields.NewDefaultFieldManager(managedfields.NewDeducedTypeConverter(), scheme, scheme, scheme,
		autoscalingv1.SchemeGroupVersion.WithKind("Scale"), autoscalingv1.SchemeGroupVersion, "scale", nil)
})

// owners translates between the owners of an object and those of its view.
type owners struct {
	*managedfields.ScaleHandler
	resource.FieldManager
}

// viewOwners returns nil for a view whose fields are not fields of the object.
func (t *target) viewOwners(old runtime.Object) (*owners, error) {
	if _, ok := t.sub.Update.NewView().(*autoscalingv1.Scale); !ok {
		return nil, nil
	}
	managerOf := t.sub.Owners
	if managerOf == nil {
		managerOf = scaleManager
	}
	manager, err := managerOf()
	if err != nil {
		return nil, err
	}
	object, err := meta.Accessor(old)
	if err != nil {
		return nil, err
	}
	handler := managedfields.NewScaleHandler(object.GetManagedFields(), t.res.GVK(t.version).GroupVersion(),
		replicasPaths(t.res, t.sub))
	return &owners{handler, manager}, nil
}

// show sets the managedFields of the view.
func (o *owners) show(view runtime.Object) error {
	entries, err := o.ToSubresource()
	if err != nil {
		return err
	}
	return setOwners(view, entries)
}

// keep converts the view's managedFields back to those of the object.
func (o *owners) keep(hub, view runtime.Object) error {
	from, err := meta.Accessor(view)
	if err != nil {
		return err
	}
	entries, err := o.ToParent(from.GetManagedFields())
	if err != nil {
		return err
	}
	return setOwners(hub, entries)
}

func setOwners(obj runtime.Object, entries []metav1.ManagedFieldsEntry) error {
	object, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	object.SetManagedFields(entries)
	return nil
}

// replicasPaths returns the path of the replicas in each version of a kind.
func replicasPaths(res *resource.Resource, sub *resource.Subresource) managedfields.ResourcePathMappings {
	paths := managedfields.ResourcePathMappings{}
	for _, v := range res.Versions {
		path := fieldpath.MakePathOrDie("spec", "replicas")
		if sub.Update.Replicas != nil {
			path = sub.Update.Replicas(v.Name)
		}
		if path != nil {
			paths[res.GVK(v.Name).GroupVersion().String()] = path
		}
	}
	return paths
}
