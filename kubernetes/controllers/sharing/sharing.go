// Package sharing lets the caches of a control plane hold the same objects.
//
// [Caches] has the decoded objects of the kinds that several components read. Their informers read
// the store, not the API:
//
//	caches := sharing.New(st)
//	informer := caches.Pods.Informer("", nil, cache.Indexers{})
//
// [Parts] makes the objects in one cache share what the objects of one owner have in common. The
// pods of a ReplicaSet have the same labels and owner references, which the ReplicaSet controller
// and the scheduler compare for all of them again and again: if each pod has its own copy, most of
// that time is spent waiting for memory.
//
//	err := informer.SetTransform(new(sharing.Parts).Trim)
//
// As always with informers, objects from the cache must not be changed.
package sharing

import (
	"maps"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxOwners is the number of owners whose objects share parts at the same time.
const maxOwners = 4096

// Parts are what the objects of an informer share. The zero value is ready for use. It is safe for
// concurrent use.
type Parts struct {
	mu     sync.Mutex
	common map[types.UID]parts // by the first owner
}

type parts struct {
	labels map[string]string
	owners []metav1.OwnerReference
}

// Trim is a transform function of informers. It removes the managedFields of an object, as
// kube-controller-manager does: no controller reads them, and they are a quarter of a small pod's
// memory. It replaces labels and owner references with equal ones of an earlier object of the same
// owner.
func (p *Parts) Trim(obj any) (any, error) {
	object, err := meta.Accessor(obj)
	if err != nil {
		return obj, nil // a tombstone, whose object was trimmed before
	}
	object.SetManagedFields(nil)
	own := parts{object.GetLabels(), object.GetOwnerReferences()}
	if len(own.owners) == 0 {
		return obj, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	owner := own.owners[0].UID
	if common, ok := p.common[owner]; ok && common.equal(own) {
		object.SetLabels(common.labels)
		object.SetOwnerReferences(common.owners)
		return obj, nil
	}
	if p.common == nil || len(p.common) >= maxOwners {
		p.common = map[types.UID]parts{}
	}
	p.common[owner] = own
	return obj, nil
}

func (p parts) equal(other parts) bool {
	return maps.Equal(p.labels, other.labels) && reflect.DeepEqual(p.owners, other.owners)
}
