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

// manager is the field manager of a quota's status that admission writes.
const manager = "kube-apiserver"

// Write returns the operation by which admission stores a quota with a changed status. Its
// precondition is the quota's revision in the snapshot.
func Write(registry *resource.Registry, sn *store.Snapshot, q *corev1.ResourceQuota) (store.Op, error) {
	key := store.Key{Resource: Resource, Namespace: q.Namespace, Name: q.Name}
	res, ok := registry.Current().ByName(schema.GroupResource{Resource: Resource})
	obj := sn.Get(key)
	if !ok || obj == nil {
		return store.Op{}, errors.New("write quota: not found")
	}
	data, err := encode(res, obj, q)
	if err != nil {
		return store.Op{}, fmt.Errorf("write quota %s/%s: %w", q.Namespace, q.Name, err)
	}
	return store.Op{Key: key, Data: data, Expect: obj.Revision}, nil
}

func encode(res *resource.Resource, stored *store.Object, q *corev1.ResourceQuota) ([]byte, error) {
	live, err := res.Codec.Load(stored.Data)
	if err != nil {
		return nil, err
	}
	next, err := res.Codec.FromVersion(q.DeepCopy())
	if err != nil {
		return nil, err
	}
	fields, err := res.Codec.FieldManager(res.StorageVersion, "status")
	if err != nil {
		return nil, err
	}
	return res.Codec.Store(fields.UpdateNoErrors(live, next, manager))
}

// Counted returns a quota with the status that it should have in a snapshot. changed reports
// whether the stored status differs; if it doesn't, the quota is shared and must not be changed.
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
		return nil, false, fmt.Errorf("compute usage of quota %s/%s: %w", q.Namespace, q.Name, err)
	}
	// Values that no evaluator computes stay unchanged.
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
