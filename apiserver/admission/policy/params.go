package policy

import (
	"weak"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
)

// params reads parameters from the newest state of the store. It implements the interfaces that
// Kubernetes' evaluation uses. Objects have the version of the parameter's kind; they are converted
// once per revision and shared.
type params struct {
	store     *store.Store
	resource  *resource.Resource
	version   string
	namespace string // "": all
}

var (
	_ informers.GenericInformer    = (*params)(nil)
	_ cache.GenericLister          = (*params)(nil)
	_ cache.GenericNamespaceLister = (*params)(nil)
)

// synced is an informer that is always synced. The evaluation calls no other method.
type synced struct{ cache.SharedIndexInformer }

func (synced) HasSynced() bool { return true }

func (p *params) Informer() cache.SharedIndexInformer { return synced{} }
func (p *params) Lister() cache.GenericLister         { return p }

func (p *params) ByNamespace(namespace string) cache.GenericNamespaceLister {
	in := *p
	in.namespace = namespace
	return &in
}

func (p *params) Get(name string) (runtime.Object, error) {
	obj := p.store.Snapshot().Get(p.resource.Key(p.namespace, name))
	if obj == nil {
		return nil, apierrors.NewNotFound(p.resource.GroupResource(), name)
	}
	return p.convert(obj)
}

func (p *params) List(selector labels.Selector) (all []runtime.Object, err error) {
	for obj := range p.store.Snapshot().Scan(p.resource.Key("", "").Resource, p.namespace, store.Key{}) {
		if !selector.Matches(labels.Set(obj.Head.Labels)) {
			continue
		}
		param, err := p.convert(obj)
		if err != nil {
			return nil, err
		}
		all = append(all, param)
	}
	return all, nil
}

// inVersion is the cache key of an object converted to a version. It contains the resource, because
// a custom resource can be redefined under the same name. It does not keep the resource alive:
// objects that forks share outlive the resources of the forks.
type inVersion struct {
	resource weak.Pointer[resource.Resource]
	version  string
}

func (p *params) convert(obj *store.Object) (runtime.Object, error) {
	v, err := obj.Memo(inVersion{weak.Make(p.resource), p.version}, func() (any, error) {
		hub, err := p.resource.Codec.Load(obj.Data)
		if err != nil {
			return nil, err
		}
		return p.resource.Codec.ToVersion(hub, p.version)
	})
	if err != nil {
		return nil, err
	}
	return v.(runtime.Object), nil
}
