package flowcontrol

import (
	"k8s.io/apiserver/pkg/storage"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"kelson.dev/apiserver/store"
)

// sampled is the size of the sample for estimating the average size of a resource's objects.
const sampled = 16

// objects tells the work estimator how many objects a resource has, and how large they are.
func (c *Controller) objects(resource string) (storage.Stats, error) {
	sn := c.store.Snapshot()
	n := sn.Count(resource, "")
	if n == 0 {
		// The resource is not served here: estimate the minimum of work.
		return storage.Stats{}, fcrequest.ObjectCountNotFoundErr
	}
	looked, bytes := 0, 0
	for obj := range sn.Scan(resource, "", store.Key{}) {
		looked, bytes = looked+1, bytes+len(obj.Data)
		if looked == sampled {
			break
		}
	}
	return storage.Stats{ObjectCount: int64(n), EstimatedAverageObjectSizeBytes: int64(bytes / looked)}, nil
}
