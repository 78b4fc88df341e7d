package simulatednodes

import (
	"bytes"
	"context"
	"iter"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/controllers/sharing"
)

// feed reads the pods of the store once and passes them to the agents of their nodes.
type feed struct {
	store  *store.Store
	pods   *sharing.Objects[corev1.Pod, *corev1.Pod]
	stages Stages // nil: the agents run all pods

	mu      sync.Mutex
	nodes   map[string]map[store.Key]*corev1.Pod // node → its pods
	bound   map[store.Key]string                 // pod → its node
	skipped map[store.Key]types.UID
	changed map[string]func(old, pod *corev1.Pod) // node → its agent
	taken   []store.Key                           // reportTaken reports them to Stages.PodTaken
}

func newFeed(cfg Config) *feed {
	return &feed{store: cfg.Store, pods: cfg.Shared.Pods, stages: cfg.Stages, nodes: map[string]map[store.Key]*corev1.Pod{},
		bound:   map[store.Key]string{},
		skipped: map[store.Key]types.UID{}, changed: map[string]func(old, pod *corev1.Pod){}}
}

// run reads pods until ctx ends.
func (f *feed) run(ctx context.Context) error {
	return f.store.Follow(ctx, "pods", func(sn *store.Snapshot) {
		f.begin(sn)
		f.reportTaken()
	}, func(events []*store.Event) {
		f.update(events)
		f.reportTaken()
	})
}

// reportTaken calls Stages.PodTaken for the pods that Stages run now. The caller must not hold mu,
// which Stages need to look at a pod.
func (f *feed) reportTaken() {
	f.mu.Lock()
	taken := f.taken
	f.taken = nil
	f.mu.Unlock()
	for _, key := range taken {
		f.stages.PodTaken(key)
	}
}

func (f *feed) update(events []*store.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range events {
		if e.Type == store.Deleted {
			f.remove(e.Object.Key)
		} else {
			f.put(e.Object, e.Prev)
		}
	}
}

// begin replaces the feed's pods with those of a snapshot.
func (f *feed) begin(sn *store.Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, keys := range []iter.Seq[store.Key]{maps.Keys(f.bound), maps.Keys(f.skipped)} {
		for key := range keys {
			if sn.Get(key) == nil {
				f.remove(key)
			}
		}
	}
	for obj := range sn.Scan("pods", "", store.Key{}) {
		f.put(obj, nil)
	}
}

// put records a new pod, or a new state of one and the state before. The caller holds mu.
func (f *feed) put(obj, before *store.Object) {
	if f.skipped[obj.Key] == obj.Head.UID || !bytes.Contains(obj.Data, []byte(`"nodeName"`)) {
		return
	}
	pod, err := f.pods.Of(obj, before)
	if err != nil || pod.Spec.NodeName == "" {
		return // no node yet, or a pod that no agent can decode
	}
	node := pod.Spec.NodeName
	old := f.nodes[node][obj.Key]
	delete(f.skipped, obj.Key)
	if old != nil && old.UID != pod.UID || old == nil && f.bound[obj.Key] != "" {
		f.remove(obj.Key) // another pod of the same name replaced it
		old = nil
	}
	if old == nil && f.stages != nil && f.stages.RunsPod(obj, pod) {
		f.skipped[obj.Key] = pod.UID
		f.taken = append(f.taken, obj.Key)
		return
	}
	if f.nodes[node] == nil {
		f.nodes[node] = map[store.Key]*corev1.Pod{}
	}
	f.nodes[node][obj.Key], f.bound[obj.Key] = pod, node
	if changed := f.changed[node]; changed != nil {
		changed(old, pod)
	}
}

// remove removes a deleted pod. The caller holds mu.
func (f *feed) remove(key store.Key) {
	delete(f.skipped, key)
	node, ok := f.bound[key]
	if !ok {
		return
	}
	old := f.nodes[node][key]
	delete(f.nodes[node], key)
	delete(f.bound, key)
	if len(f.nodes[node]) == 0 {
		delete(f.nodes, node)
	}
	if changed := f.changed[node]; changed != nil {
		changed(old, nil)
	}
}

// follow passes the existing pods of a node to changed, and then their changes until ctx ends.
func (f *feed) follow(ctx context.Context, node string, changed func(old, pod *corev1.Pod)) {
	f.mu.Lock()
	for _, pod := range f.nodes[node] {
		changed(nil, pod)
	}
	f.changed[node] = changed
	f.mu.Unlock()
	<-ctx.Done()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.changed, node)
}

// handOver takes a pod away from its agent, and returns the pod, or nil if no agent has it.
func (f *feed) handOver(key store.Key) *corev1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	pod := f.nodes[f.bound[key]][key]
	if pod == nil {
		return nil
	}
	delete(f.nodes[f.bound[key]], key)
	delete(f.bound, key)
	f.skipped[key] = pod.UID
	return pod
}

// isSkipped reports whether Stages run a pod instead of an agent.
func (f *feed) isSkipped(key store.Key) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.skipped[key] != ""
}
