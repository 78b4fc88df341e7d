package workloads

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	kubecontroller "k8s.io/kubernetes/pkg/controller"
)

const (
	// lookCost is about ten times the processor time that a sync of a ReplicaSet takes for each of
	// its pods.
	lookCost = 25 * time.Microsecond
	// maxPause is the longest pause, which delays the syncs of an owner and occupies a worker.
	maxPause = 250 * time.Millisecond
	// manyPods is the number of pods from which an owner's syncs are paced.
	manyPods = 100
)

// paced returns an informer of pods for a controller that looks at all pods of an owner in each
// sync, and syncs the owner after each change of a pod. While the 3,000 pods of a ReplicaSet start,
// these are thousands of changes and nearly a thousand syncs, one directly after the other. Here a
// sync waits with its look until those at the same owner take at most a tenth of a processor, and
// the controller's queue merges the changes in the meantime. Owners with fewer than manyPods never
// wait. owners has the owners, whose kind the controller knows.
func paced(ctx context.Context, pods informer[corelisters.PodLister],
	owners cache.KeyGetter) informer[corelisters.PodLister] {
	indexer := &pacedIndexer{Indexer: pods.shared.GetIndexer(), ctx: ctx, owners: owners, next: map[string]time.Time{}}
	return informer[corelisters.PodLister]{pacedInformer{pods.shared, indexer}, pods.lister}
}

type pacedInformer struct {
	cache.SharedIndexInformer
	indexer cache.Indexer
}

func (i pacedInformer) GetIndexer() cache.Indexer { return i.indexer }

// pacedIndexer delays looks at the pods of an owner. It is safe for concurrent use.
type pacedIndexer struct {
	cache.Indexer
	ctx    context.Context // ends all pauses
	owners cache.KeyGetter

	mu   sync.Mutex
	next map[string]time.Time // owner with many pods → the time of its next look
}

// ByIndex returns the pods of an owner, as they are after the pause. It returns an error if the
// owner has changed during the pause: the caller read it before, and would create pods for an owner
// that does not exist any more.
func (i *pacedIndexer) ByIndex(name, owner string) ([]any, error) {
	// Without "/", owner is the namespace of pods without an owner.
	if name != kubecontroller.PodControllerIndex || !strings.Contains(owner, "/") {
		return i.Indexer.ByIndex(name, owner)
	}
	if err := i.pause(owner); err != nil {
		return nil, err
	}
	pods, err := i.Indexer.ByIndex(name, owner)
	i.looked(owner, len(pods))
	return pods, err
}

// pause waits until the time of the next look at an owner.
func (i *pacedIndexer) pause(owner string) error {
	i.mu.Lock()
	wait := time.Until(i.next[owner])
	i.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	before := i.state(owner)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-i.ctx.Done():
		return i.ctx.Err()
	case <-timer.C:
	}
	if i.state(owner) != before {
		return fmt.Errorf("%s has changed, and must be read again", owner)
	}
	return nil
}

// looked plans the next look at an owner.
func (i *pacedIndexer) looked(owner string, pods int) {
	now := time.Now()
	i.mu.Lock()
	defer i.mu.Unlock()
	maps.DeleteFunc(i.next, func(_ string, at time.Time) bool { return !at.After(now) })
	if pods >= manyPods {
		i.next[owner] = now.Add(min(time.Duration(pods)*lookCost, maxPause))
	}
}

// ownerState identifies an owner and the state of its spec. The zero value means that the owner
// does not exist.
type ownerState struct {
	uid        types.UID
	generation int64
	deleted    bool
}

// state returns the state of an owner, which has the form of
// [kubecontroller.PodControllerIndexKey].
func (i *pacedIndexer) state(owner string) ownerState {
	parts := strings.Split(owner, "/") // namespace, kind, name, uid
	if len(parts) != 4 {
		return ownerState{}
	}
	found, exists, err := i.owners.GetByKey(parts[0] + "/" + parts[2])
	if err != nil || !exists {
		return ownerState{}
	}
	object, err := meta.Accessor(found)
	if err != nil {
		return ownerState{}
	}
	return ownerState{object.GetUID(), object.GetGeneration(), object.GetDeletionTimestamp() != nil}
}
