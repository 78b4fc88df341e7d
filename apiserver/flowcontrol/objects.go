package flowcontrol

import (
	"k8s.io/apiserver/pkg/storage"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"kelson.dev/apiserver/store"
)

// sampleSize is the size of the sample for estimating the average size of a resource's objects.
const sampleSize = 16

// objects returns the number and the average size of the objects of a resource, for the work
// estimator.
func (c *Controller) objects(resource string) (storage.Stats, error) {
	sn := c.store.Snapshot()
	n := sn.Count(resource, "")
	if n == 0 {
		// The resource is not served here: estimate the minimum of work.
		return storage.Stats{}, fcrequest.ObjectCountNotFoundErr
	}
	count, bytes := 0, 0
	for obj := range sn.Scan(resource, "", store.Key{}) {
		count, bytes = count+1, bytes+len(obj.Data)
		if count == sampleSize {
			break
		}
	}
	return storage.Stats{ObjectCount: int64(n), EstimatedAverageObjectSizeBytes: int64(bytes / count)}, nil
}
