package plan

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/node"
	"kelson.dev/kubernetes/node/simulated"
)

// kubelets simulates the kubelets of a state's nodes for pods that are created or deleted in the
// run. All other pods keep their status.
type kubelets struct {
	plane   *controlplane.ControlPlane
	from    uint64             // revision of the state
	runtime *simulated.Runtime // shared, so that pods have different addresses
	agents  map[string]bool    // by node
	running sync.WaitGroup
}

func newKubelets(plane *controlplane.ControlPlane, from uint64) *kubelets {
	return &kubelets{plane: plane, from: from, runtime: simulated.New(simulated.Config{}), agents: map[string]bool{}}
}

// run follows the pods until ctx ends.
func (k *kubelets) run(ctx context.Context) error {
	defer k.running.Wait()
	return k.plane.Store().Follow(ctx, "pods", func(*store.Snapshot) {}, func(events []*store.Event) {
		for _, e := range events {
			if e.Type != store.Deleted {
				k.observe(ctx, e.Object)
			}
		}
	})
}

func (k *kubelets) observe(ctx context.Context, obj *store.Object) {
	if obj.Created <= k.from && obj.Head.DeletionTimestamp.IsZero() {
		return
	}
	pod, err := derived.Of[corev1.Pod](obj)
	if err != nil || pod.Spec.NodeName == "" {
		return
	}
	if k.agents[pod.Spec.NodeName] || k.plane.Store().Snapshot().Get(store.Key{Resource: "nodes",
		Name: pod.Spec.NodeName}) == nil {
		return
	}
	k.agents[pod.Spec.NodeName] = true
	agent, err := node.NewAgent(node.AgentConfig{
		Config: k.plane.RESTConfig(), Name: pod.Spec.NodeName, Runtime: k.runtime, Writes: node.WritesNothing,
		Pods: func(ctx context.Context, changed func(old, pod *corev1.Pod)) {
			k.follow(ctx, pod.Spec.NodeName, changed)
		},
	})
	if err != nil {
		return // the configuration is complete
	}
	k.running.Go(func() { _ = agent.Run(ctx) }) // always nil
}

// follow passes the simulated pods of a node to changed until ctx ends.
func (k *kubelets) follow(ctx context.Context, nodeName string, changed func(old, pod *corev1.Pod)) {
	pods := map[store.Key]*corev1.Pod{}
	gone := func(key store.Key) {
		if old := pods[key]; old != nil {
			delete(pods, key)
			changed(old, nil)
		}
	}
	put := func(obj *store.Object) {
		pod, err := derived.Of[corev1.Pod](obj)
		if err != nil || pod.Spec.NodeName != nodeName {
			return
		}
		if old := pods[obj.Key]; old != nil && old.UID != pod.UID {
			gone(obj.Key)
		}
		if pods[obj.Key] == nil && obj.Created <= k.from && pod.DeletionTimestamp == nil {
			return
		}
		old := pods[obj.Key]
		pods[obj.Key] = pod
		changed(old, pod)
	}
	begin := func(sn *store.Snapshot) {
		for key := range pods {
			if sn.Get(key) == nil {
				gone(key)
			}
		}
		for obj := range sn.Scan("pods", "", store.Key{}) {
			put(obj)
		}
	}
	// Next fails only if the store is closed
	_ = k.plane.Store().Follow(ctx, "pods", begin, func(events []*store.Event) {
		for _, e := range events {
			if e.Type == store.Deleted {
				gone(e.Object.Key)
			} else {
				put(e.Object)
			}
		}
	})
}
