package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"kelson.dev/operator/client"
	"kelson.dev/operator/controller"
)

// Wrap adapts a client of the library to controller-runtime's interface.
func Wrap(c client.Client) crclient.WithWatch {
	return wrapped{c: c, scheme: sync.OnceValue(func() *runtime.Scheme { return WholeScheme(c.Scheme()) })}
}

type wrapped struct {
	c      client.Client
	scheme func() *runtime.Scheme
	// plain makes Apply always send an apply, even where a create would have the same effect, so
	// that managedFields are the same as with controller-runtime.
	plain bool
}

var _ crclient.WithWatch = wrapped{}

// Scheme returns the client's scheme with the types of Kubernetes added, as code for
// controller-runtime expects.
func (w wrapped) Scheme() *runtime.Scheme { return w.scheme() }

// WholeScheme returns a copy of a scheme with the types of Kubernetes added.
func WholeScheme(s *runtime.Scheme) *runtime.Scheme {
	whole := runtime.NewScheme()
	if err := scheme.AddToScheme(whole); err != nil {
		panic(err) // as client-go does for its own scheme
	}
	for kind, typ := range s.AllKnownTypes() {
		if obj, ok := reflect.New(typ).Interface().(runtime.Object); ok && !whole.Recognizes(kind) {
			whole.AddKnownTypeWithName(kind, obj)
		}
	}
	return whole
}

func (w wrapped) RESTMapper() meta.RESTMapper { return w.c.Mapper() }

func (w wrapped) GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	return client.KindOf(obj, w.c.Scheme())
}

func (w wrapped) IsObjectNamespaced(obj runtime.Object) (bool, error) {
	kind, err := client.KindOf(obj, w.c.Scheme())
	if err != nil {
		return false, err
	}
	return controller.Namespaced(w.c.Mapper(), kind)
}

func (w wrapped) Get(ctx context.Context, key crclient.ObjectKey, obj crclient.Object,
	opts ...crclient.GetOption) error {
	o := crclient.GetOptions{}
	o.ApplyOptions(opts)
	get := client.GetOptions{}
	if o.Raw != nil {
		get.ResourceVersion = o.Raw.ResourceVersion
	}
	return w.c.Get(ctx, key, obj, get)
}

func listOptions(opts []crclient.ListOption) client.ListOptions {
	o := crclient.ListOptions{}
	o.ApplyOptions(opts)
	list := client.ListOptions{
		Namespace: o.Namespace, Labels: o.LabelSelector, Fields: o.FieldSelector, Limit: o.Limit, Continue: o.Continue,
	}
	if o.Raw != nil {
		list.ResourceVersion, list.ResourceVersionMatch = o.Raw.ResourceVersion, o.Raw.ResourceVersionMatch
	}
	return list
}

func (w wrapped) List(ctx context.Context, list crclient.ObjectList, opts ...crclient.ListOption) error {
	return w.c.List(ctx, list, listOptions(opts))
}

func (w wrapped) Watch(ctx context.Context, list crclient.ObjectList,
	opts ...crclient.ListOption) (kwatch.Interface, error) {
	return w.c.Watch(ctx, list, listOptions(opts))
}

// dryRun reports whether the option DryRun is set. Its only valid value is "All"; no other value
// may lead to a write.
func dryRun(values []string) bool { return len(values) > 0 }

func (w wrapped) Create(ctx context.Context, obj crclient.Object, opts ...crclient.CreateOption) error {
	o := (&crclient.CreateOptions{}).ApplyOptions(opts)
	return w.c.Create(ctx, obj, client.WriteOptions{DryRun: dryRun(o.DryRun), FieldOwner: o.FieldManager,
		FieldValidation: o.FieldValidation})
}

func (w wrapped) Update(ctx context.Context, obj crclient.Object, opts ...crclient.UpdateOption) error {
	o := (&crclient.UpdateOptions{}).ApplyOptions(opts)
	return w.c.Update(ctx, obj, client.WriteOptions{DryRun: dryRun(o.DryRun), FieldOwner: o.FieldManager,
		FieldValidation: o.FieldValidation})
}

func (w wrapped) Patch(ctx context.Context, obj crclient.Object, p crclient.Patch, opts ...crclient.PatchOption) error {
	o := (&crclient.PatchOptions{}).ApplyOptions(opts)
	if err := w.checkOwner(p.Type(), o.FieldManager); err != nil {
		return err
	}
	return w.c.Patch(ctx, obj, patch{p}, patchOptions(p, o))
}

// checkOwner returns the server's error for an apply without a field owner. The library's client
// would use its own, so that a program that works here would not work on controller-runtime's.
func (w wrapped) checkOwner(patch types.PatchType, owner string) error {
	if !w.plain || owner != "" || patch != types.ApplyYAMLPatchType && patch != types.ApplyCBORPatchType {
		return nil
	}
	kind := schema.GroupKind{Group: metav1.GroupName, Kind: "PatchOptions"}
	return apierrors.NewInvalid(kind, "", field.ErrorList{field.Required(field.NewPath("fieldManager"),
		"is required for apply patch")})
}

// patchOptions lets an apply conflict unless it is forced, as controller-runtime does.
func patchOptions(p crclient.Patch, o *crclient.PatchOptions) client.WriteOptions {
	write := client.WriteOptions{DryRun: dryRun(o.DryRun), FieldOwner: o.FieldManager,
		FieldValidation: o.FieldValidation, Force: o.Force}
	if p.Type() == types.ApplyPatchType && write.Force == nil {
		no := false
		write.Force = &no
	}
	return write
}

type patch struct{ upstream crclient.Patch }

func (p patch) Type() types.PatchType                  { return p.upstream.Type() }
func (p patch) Data(obj client.Object) ([]byte, error) { return p.upstream.Data(obj) }

func (w wrapped) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...crclient.ApplyOption) error {
	o := (&crclient.ApplyOptions{}).ApplyOptions(opts)
	if err := w.checkOwner(types.ApplyPatchType, o.FieldManager); err != nil {
		return err
	}
	return applied(obj, func(u *unstructured.Unstructured) error {
		if w.plain {
			return w.c.Patch(ctx, u, wholeApply{}, applyOptions(o))
		}
		return w.c.Apply(ctx, u, applyOptions(o))
	})
}

// wholeApply is an apply of an object as it is.
type wholeApply struct{}

func (wholeApply) Type() types.PatchType                  { return types.ApplyPatchType }
func (wholeApply) Data(obj client.Object) ([]byte, error) { return json.Marshal(obj) }

func applyOptions(o *crclient.ApplyOptions) client.WriteOptions {
	force := o.Force
	if force == nil {
		no := false
		force = &no
	}
	return client.WriteOptions{DryRun: dryRun(o.DryRun), FieldOwner: o.FieldManager, Force: force}
}

// applied applies a configuration as an object, and fills it with the answer.
func applied(obj runtime.ApplyConfiguration, apply func(*unstructured.Unstructured) error) error {
	data, err := json.Marshal(obj)
	if err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	if err := apply(u); err != nil {
		return err
	}
	if data, err = u.MarshalJSON(); err != nil {
		return err
	}
	return json.Unmarshal(data, obj)
}

func (w wrapped) Delete(ctx context.Context, obj crclient.Object, opts ...crclient.DeleteOption) error {
	o := (&crclient.DeleteOptions{}).ApplyOptions(opts)
	return w.c.Delete(ctx, obj, deleteOptions(o))
}

func deleteOptions(o *crclient.DeleteOptions) client.DeleteOptions {
	return client.DeleteOptions{
		DryRun: dryRun(o.DryRun), GracePeriodSeconds: o.GracePeriodSeconds, Preconditions: o.Preconditions,
		PropagationPolicy: o.PropagationPolicy,
	}
}

func (w wrapped) DeleteAllOf(ctx context.Context, obj crclient.Object, opts ...crclient.DeleteAllOfOption) error {
	o := (&crclient.DeleteAllOfOptions{}).ApplyOptions(opts)
	return w.c.DeleteAllOf(ctx, obj, client.DeleteAllOfOptions{
		ListOptions:   client.ListOptions{Namespace: o.Namespace, Labels: o.LabelSelector, Fields: o.FieldSelector},
		DeleteOptions: deleteOptions(&o.DeleteOptions),
	})
}
