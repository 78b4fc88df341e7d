package quota

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apiserver/pkg/quota/v1"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// Write is the op that stores a quota whose status was changed, over its state in the snapshot.
func Write(registry *resource.Registry, sn *store.Snapshot, q *corev1.ResourceQuota) (store.Op, error) {
	key := store.Key{Resource: Resource, Namespace: q.Namespace, Name: q.Name}
	res, ok := registry.Current().ByName(schema.GroupResource{Resource: Resource})
	obj := sn.Get(key)
	if !ok || obj == nil {
		return store.Op{}, errors.New("write a quota that is not there")
	}
	hub, err := res.Codec.FromVersion(q.DeepCopy())
	if err != nil {
		return store.Op{}, fmt.Errorf("write quota %s/%s: %w", q.Namespace, q.Name, err)
	}
	data, err := res.Codec.Store(hub)
	if err != nil {
		return store.Op{}, fmt.Errorf("write quota %s/%s: %w", q.Namespace, q.Name, err)
	}
	return store.Op{Key: key, Data: data, Expect: obj.Revision}, nil
}

// Counted is a quota with the status that it should have in a state; changed says that it has another. The quota is shared if not.
func Counted(sn *store.Snapshot, key store.Key) (q *corev1.ResourceQuota, changed bool, err error) {
	obj := sn.Get(key)
	if obj == nil {
		return nil, false, nil
	}
	if q, err = derived.Of[corev1.ResourceQuota](obj); err != nil {
		return nil, false, err
	}
	measured, err := Usage(sn, q)
	if err != nil {
		return nil, false, fmt.Errorf("measure what quota %s/%s limits: %w", q.Namespace, q.Name, err)
	}
	// What nobody can measure stays as it was.
	used := upstream.Add(corev1.ResourceList{}, q.Status.Used)
	for name, quantity := range measured {
		used[name] = quantity
	}
	hard := upstream.Add(corev1.ResourceList{}, q.Spec.Hard)
	used = upstream.Mask(used, upstream.ResourceNames(hard))
	if upstream.Equals(q.Spec.Hard, q.Status.Hard) && upstream.Equals(used, q.Status.Used) {
		return q, false, nil
	}
	q = q.DeepCopy()
	q.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: used}
	return q, true, nil
}
