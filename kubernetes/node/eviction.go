package node

import (
	"fmt"
	"time"
)

// evicted is the reason in the status of pods that the node ends because they use too much space.
const evicted = "Evicted"

// measureEvery is the time between two comparisons of the sizes of volumes with their limits, as in
// a kubelet.
const measureEvery = 10 * time.Second

// measureVolumes makes the pod fail if an emptyDir volume exceeds its sizeLimit. It returns the
// time of the next call; zero means that no call is needed.
func (w *worker) measureVolumes() time.Time {
	measurer, ok := w.sandbox.(Measurer)
	if !ok || w.lifecycle.failure != nil || w.lifecycle.deleted || terminal(w.pod) || w.pod.DeletionTimestamp != nil {
		return time.Time{}
	}
	limited := false
	now := time.Now()
	due := !now.Before(w.volumes.measureAt)
	for i := range w.pod.Spec.Volumes {
		volume := &w.pod.Spec.Volumes[i]
		if volume.EmptyDir == nil || volume.EmptyDir.SizeLimit == nil || volume.EmptyDir.SizeLimit.Sign() <= 0 {
			continue
		}
		limited = true
		if _, set := w.volumes.set[volume.Name]; !due || !set {
			continue
		}
		size, err := measurer.VolumeBytes(volume.Name)
		if err != nil {
			w.log().Warn("measure volume", "volume", volume.Name, "error", err)
			continue
		}
		if limit := volume.EmptyDir.SizeLimit; size > limit.Value() {
			w.mu.Lock()
			w.lifecycle.failure = &failure{evicted,
				fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", volume.Name, limit.String())}
			w.mu.Unlock()
			return time.Time{}
		}
	}
	if !limited {
		return time.Time{}
	}
	if due {
		w.volumes.measureAt = now.Add(measureEvery)
	}
	return w.volumes.measureAt
}
