// Package quota computes what objects use, for ResourceQuotas, with Kubernetes' own evaluators.
//
//	e, err := quota.EvaluatorFor(snapshot, schema.GroupResource{Resource: "pods"}) // one object, for admission
//	used, err := quota.Usage(snapshot, q)                                          // all objects of a namespace
//
// Objects of any resource can be counted as count/<resource>.<group>, including custom resources
// and resources that are not served.
package quota

import (
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/kubernetes/pkg/quota/v1/install"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// Resource is the store's name of ResourceQuotas.
const Resource = "resourcequotas"

// countPrefix is the prefix of object count quotas.
const countPrefix = "count/"

// Ignored reports whether objects of a resource are never counted: events, and resources that are
// not stored.
func Ignored(res schema.GroupResource) bool {
	_, ok := install.DefaultIgnoredResources()[res]
	return ok
}

// single contains the evaluators of single objects that read nothing else.
var single = sync.OnceValues(func() (upstream.Registry, error) {
	evaluators, err := independent(nil)
	return generic.NewRegistry(evaluators), err
})

// EvaluatorFor returns the evaluator of a resource's objects, which reads other objects from the
// snapshot.
func EvaluatorFor(sn *store.Snapshot, res schema.GroupResource) (upstream.Evaluator, error) {
	if res == claims.GroupResource() {
		return claimEvaluator(sn, nil)
	}
	registry, err := single()
	if err != nil {
		return nil, err
	}
	if e := registry.Get(res); e != nil {
		return e, nil
	}
	return generic.NewObjectCountEvaluator(res, nil, ""), nil
}

// Usage computes the usage of everything that a quota limits in its namespace.
func Usage(sn *store.Snapshot, q *corev1.ResourceQuota) (corev1.ResourceList, error) {
	listers := func(gvr schema.GroupVersionResource) (cache.GenericLister, error) {
		return lister{sn: sn, resource: gvr.GroupResource()}, nil
	}
	evaluators, err := independent(listers)
	if err != nil {
		return nil, err
	}
	ofClaims, err := claimEvaluator(sn, listers)
	if err != nil {
		return nil, err
	}
	all := generic.NewRegistry(append(evaluators, ofClaims))
	for name := range q.Spec.Hard {
		counted, ok := strings.CutPrefix(string(name), countPrefix)
		if !ok {
			continue
		}
		if res := schema.ParseGroupResource(counted); all.Get(res) == nil {
			all.Add(generic.NewObjectCountEvaluator(res, func(namespace string) ([]runtime.Object, error) {
				// only the number matters
				return make([]runtime.Object, sn.Count(res.String(), namespace)), nil
			}, ""))
		}
	}
	return upstream.CalculateUsage(q.Namespace, q.Spec.Scopes, q.Spec.Hard, all, q.Spec.ScopeSelector)
}

// Frees reports whether an update may have released resources without admission, such as the end of
// a pod.
func Frees(old, obj *store.Object) (bool, error) {
	switch obj.Key.Resource {
	case "pods":
		return frees[corev1.Pod](old, obj)
	case "services":
		return frees[corev1.Service](old, obj)
	case "persistentvolumeclaims":
		return frees[corev1.PersistentVolumeClaim](old, obj)
	}
	return false, nil
}

var updates = sync.OnceValue(install.DefaultUpdateFilter)

func frees[T any](old, obj *store.Object) (bool, error) {
	before, err := derived.Of[T](old)
	if err != nil {
		return false, err
	}
	after, err := derived.Of[T](obj)
	if err != nil {
		return false, err
	}
	return updates()(corev1.SchemeGroupVersion.WithResource(obj.Key.Resource), before, after), nil
}

// independent returns the evaluators of the resources that have their own rules, except that of
// claims, for which Kubernetes' function would need informers.
func independent(listers upstream.ListerForResourceFunc) ([]upstream.Evaluator, error) {
	evaluators, err := core.NewEvaluators(listers, nil, func(gvr schema.GroupVersionResource) bool {
		return gvr != claims
	})
	if err != nil {
		return nil, fmt.Errorf("create quota evaluators: %w", err)
	}
	return evaluators, nil
}

// lister lists the objects of resources that have their own evaluators.
type lister struct {
	sn        *store.Snapshot
	resource  schema.GroupResource
	namespace string
}

func (l lister) ByNamespace(namespace string) cache.GenericNamespaceLister {
	l.namespace = namespace
	return l
}

func (l lister) Get(name string) (runtime.Object, error) {
	return nil, fmt.Errorf("get %s %s: evaluators only list", l.resource, name)
}

func (l lister) List(labels.Selector) ([]runtime.Object, error) {
	switch l.resource {
	case schema.GroupResource{Resource: "pods"}:
		return list[corev1.Pod](l)
	case schema.GroupResource{Resource: "services"}:
		return list[corev1.Service](l)
	case schema.GroupResource{Resource: "persistentvolumeclaims"}:
		return list[corev1.PersistentVolumeClaim](l)
	case schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaims"}:
		return list[resourcev1.ResourceClaim](l)
	}
	return make([]runtime.Object, l.sn.Count(l.resource.String(), l.namespace)), nil
}

func list[T any, P interface {
	*T
	runtime.Object
}](l lister) ([]runtime.Object, error) {
	var all []runtime.Object
	for obj, err := range derived.List[T](l.sn, l.resource.String(), l.namespace) {
		if err != nil {
			return nil, err
		}
		all = append(all, P(obj))
	}
	return all, nil
}
