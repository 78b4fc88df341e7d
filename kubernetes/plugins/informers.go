package plugins

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	coregroup "k8s.io/client-go/informers/core"
	coreinformers "k8s.io/client-go/informers/core/v1"
	networkinggroup "k8s.io/client-go/informers/networking"
	networkinginformers "k8s.io/client-go/informers/networking/v1"
	nodegroup "k8s.io/client-go/informers/node"
	nodeinformers "k8s.io/client-go/informers/node/v1"
	schedulinggroup "k8s.io/client-go/informers/scheduling"
	schedulinginformers "k8s.io/client-go/informers/scheduling/v1"
	storagegroup "k8s.io/client-go/informers/storage"
	storageinformers "k8s.io/client-go/informers/storage/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	nodelisters "k8s.io/client-go/listers/node/v1"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// indexer is a cache.Indexer over a resource of the store. As with informers, plugins must not
// change the objects.
type indexer[T any] struct {
	cache.Indexer // nil: listers call only the methods below
	store         *store.Store
	resource      string
}

func (x indexer[T]) List() []any { return x.list("") }

func (x indexer[T]) Index(name string, obj any) ([]any, error) {
	object, err := meta.Accessor(obj)
	if err != nil || name != cache.NamespaceIndex {
		return nil, fmt.Errorf("index %s of %s: unknown index", name, x.resource)
	}
	return x.list(object.GetNamespace()), nil
}

func (x indexer[T]) GetByKey(key string) (any, bool, error) {
	namespace, name, ok := strings.Cut(key, "/")
	if !ok {
		namespace, name = "", key
	}
	obj, err := derived.Get[T](x.store.Snapshot(), x.resource, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	return obj, err == nil, err
}

// list returns the objects of a namespace. Like informers, it omits objects that can't be decoded.
func (x indexer[T]) list(namespace string) []any {
	var all []any
	for obj, err := range derived.List[T](x.store.Snapshot(), x.resource, namespace) {
		if err == nil {
			all = append(all, obj)
		}
	}
	return all
}

// informer implements the typed informers of a resource of the store.
type informer[I, L any] struct {
	lister L
	none   I
}

// newInformer returns the informer of kind T. I is the type of its TypedInformer.
func newInformer[T, I, L any](st *store.Store, resource string, lister func(cache.Indexer) L) informer[I, L] {
	return informer[I, L]{lister: lister(indexer[T]{store: st, resource: resource})}
}

func (i informer[I, L]) Informer() cache.SharedIndexInformer { return synced{} }

// plugins do not call it
func (i informer[I, L]) TypedInformer() I { return i.none }
func (i informer[I, L]) Lister() L        { return i.lister }

type synced struct{ cache.SharedIndexInformer } // nil: plugins call only HasSynced

// HasSynced returns true, because the store is always up to date.
func (synced) HasSynced() bool { return true }

// factory is a SharedInformerFactory with the resources that plugins read.
type factory struct {
	informers.SharedInformerFactory // nil: no other groups
	store                           *store.Store
}

type (
	core struct {
		coregroup.Interface
		st *store.Store
	}
	coreV1 struct {
		coreinformers.Interface
		st *store.Store
	}
	networking struct {
		networkinggroup.Interface
		st *store.Store
	}
	networkingV1 struct {
		networkinginformers.Interface
		st *store.Store
	}
	nodes struct {
		nodegroup.Interface
		st *store.Store
	}
	nodesV1 struct {
		nodeinformers.Interface
		st *store.Store
	}
	scheduling struct {
		schedulinggroup.Interface
		st *store.Store
	}
	schedulingV1 struct {
		schedulinginformers.Interface
		st *store.Store
	}
	storage struct {
		storagegroup.Interface
		st *store.Store
	}
	storageV1 struct {
		storageinformers.Interface
		st *store.Store
	}
)

func (f factory) Core() coregroup.Interface             { return core{st: f.store} }
func (f factory) Networking() networkinggroup.Interface { return networking{st: f.store} }
func (f factory) Node() nodegroup.Interface             { return nodes{st: f.store} }
func (f factory) Scheduling() schedulinggroup.Interface { return scheduling{st: f.store} }
func (f factory) Storage() storagegroup.Interface       { return storage{st: f.store} }

func (g core) V1() coreinformers.Interface             { return coreV1{st: g.st} }
func (g networking) V1() networkinginformers.Interface { return networkingV1{st: g.st} }
func (g nodes) V1() nodeinformers.Interface            { return nodesV1{st: g.st} }
func (g scheduling) V1() schedulinginformers.Interface { return schedulingV1{st: g.st} }
func (g storage) V1() storageinformers.Interface       { return storageV1{st: g.st} }

func (v coreV1) Namespaces() coreinformers.TypedNamespaceInformer {
	return newInformer[corev1.Namespace, coreinformers.NamespaceIndexInformer](v.st, "namespaces",
		corelisters.NewNamespaceLister)
}

func (v coreV1) Nodes() coreinformers.TypedNodeInformer {
	return newInformer[corev1.Node, coreinformers.NodeIndexInformer](v.st, "nodes", corelisters.NewNodeLister)
}

func (v coreV1) Pods() coreinformers.TypedPodInformer {
	return newInformer[corev1.Pod, coreinformers.PodIndexInformer](v.st, "pods", corelisters.NewPodLister)
}

func (v coreV1) LimitRanges() coreinformers.TypedLimitRangeInformer {
	return newInformer[corev1.LimitRange, coreinformers.LimitRangeIndexInformer](v.st, "limitranges",
		corelisters.NewLimitRangeLister)
}

func (v coreV1) ServiceAccounts() coreinformers.TypedServiceAccountInformer {
	return newInformer[corev1.ServiceAccount, coreinformers.ServiceAccountIndexInformer](v.st, "serviceaccounts",
		corelisters.NewServiceAccountLister)
}

func (v coreV1) PersistentVolumeClaims() coreinformers.TypedPersistentVolumeClaimInformer {
	return newInformer[corev1.PersistentVolumeClaim, coreinformers.PersistentVolumeClaimIndexInformer](v.st,
		"persistentvolumeclaims", corelisters.NewPersistentVolumeClaimLister)
}

func (v coreV1) PersistentVolumes() coreinformers.TypedPersistentVolumeInformer {
	return newInformer[corev1.PersistentVolume, coreinformers.PersistentVolumeIndexInformer](v.st, "persistentvolumes",
		corelisters.NewPersistentVolumeLister)
}

func (v networkingV1) IngressClasses() networkinginformers.TypedIngressClassInformer {
	return newInformer[networkingv1.IngressClass, networkinginformers.IngressClassIndexInformer](v.st,
		"ingressclasses.networking.k8s.io", networkinglisters.NewIngressClassLister)
}

func (v nodesV1) RuntimeClasses() nodeinformers.TypedRuntimeClassInformer {
	return newInformer[nodev1.RuntimeClass, nodeinformers.RuntimeClassIndexInformer](v.st, "runtimeclasses.node.k8s.io",
		nodelisters.NewRuntimeClassLister)
}

func (v schedulingV1) PriorityClasses() schedulinginformers.TypedPriorityClassInformer {
	return newInformer[schedulingv1.PriorityClass, schedulinginformers.PriorityClassIndexInformer](v.st,
		"priorityclasses.scheduling.k8s.io", schedulinglisters.NewPriorityClassLister)
}

func (v storageV1) StorageClasses() storageinformers.TypedStorageClassInformer {
	return newInformer[storagev1.StorageClass, storageinformers.StorageClassIndexInformer](v.st,
		"storageclasses.storage.k8s.io", storagelisters.NewStorageClassLister)
}

func (v storageV1) CSIDrivers() storageinformers.TypedCSIDriverInformer {
	return newInformer[storagev1.CSIDriver, storageinformers.CSIDriverIndexInformer](v.st, "csidrivers.storage.k8s.io",
		storagelisters.NewCSIDriverLister)
}
