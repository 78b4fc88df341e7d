package stages

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/sharing"
	"kelson.dev/kubernetes/node"
	"kelson.dev/kubernetes/node/simulated"
	"kelson.dev/kubernetes/node/stage"
	"kelson.dev/operator/client"
	"kelson.dev/operator/events"
)

// Nodes are the simulated nodes.
type Nodes interface {
	// Simulates reports whether the node exists, is simulated, and is not silent.
	Simulates(name string) bool
	// Address returns the address of a simulated node.
	Address(name string) string
	// HandOver makes Stages run a pod instead of the simulation.
	HandOver(pod store.Key)
	// Scripted reports whether Stages run a pod.
	Scripted(pod store.Key) bool
}

// Config configures a Controller. Store, Registry, REST and Runtime are required.
type Config struct {
	Store    *store.Store
	Registry *resource.Registry
	// Shared has the decoded nodes.
	Shared *sharing.Caches
	// REST connects to the API server.
	REST *rest.Config
	// Runtime gives addresses to pods.
	Runtime *simulated.Runtime
	// Stages are installed at the start, with the definition of their kind.
	Stages []*stage.Stage
	// Random(n) returns a number in [0,n); if nil, the numbers are random.
	Random func(int64) int64
	Log    *slog.Logger
}

// Controller runs the Stages of one control plane. Its methods are safe for concurrent use.
type Controller struct {
	cfg     Config
	nodes   Nodes
	client  client.Client
	events  *events.Broadcaster
	written *derived.View[*compiled]
	limit   chan struct{} // the number of concurrent actions
	record  sync.Once     // starts events
	parts   sync.WaitGroup

	mu      sync.Mutex
	life    context.Context // of Run
	kinds   map[schema.GroupVersionKind]*kind
	clients map[string]client.Client // by user
	pods    map[types.UID]node.Sandbox
}

// compiled are the Stages of a state.
type compiled struct {
	lifecycles map[schema.GroupVersionKind]stage.Lifecycle
	invalid    []error
}

var (
	podKind  = corev1.SchemeGroupVersion.WithKind("Pod")
	nodeKind = corev1.SchemeGroupVersion.WithKind("Node")
)

// maxActions is how many objects are changed at a time.
const maxActions = 16

// New returns a controller; call SetNodes and then Run.
func New(cfg Config) (*Controller, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Random == nil {
		cfg.Random = rand.Int64N
	}
	ownClient, err := client.New(client.Config{REST: cfg.REST, FieldOwner: "kwok"})
	if err != nil {
		return nil, err
	}
	return &Controller{
		cfg: cfg, client: ownClient, events: events.New(events.Config{Client: ownClient, Log: cfg.Log}),
		written: derived.NewView(cfg.Store, compileAll, stage.Resource), limit: make(chan struct{}, maxActions),
		kinds: map[schema.GroupVersionKind]*kind{}, clients: map[string]client.Client{"": ownClient},
		pods: map[types.UID]node.Sandbox{},
	}, nil
}

// SetNodes sets the simulated nodes. It must be called before Run.
func (c *Controller) SetNodes(nodes Nodes) { c.nodes = nodes }

// compileAll compiles the Stages of a state, in order of their names.
func compileAll(sn *store.Snapshot) (*compiled, error) {
	all := &compiled{lifecycles: map[schema.GroupVersionKind]stage.Lifecycle{}}
	for obj := range sn.Scan(stage.Resource, "", store.Key{}) {
		s, err := derived.Of[stage.Stage](obj)
		if err != nil {
			all.invalid = append(all.invalid, err)
			continue
		}
		p, err := stage.Compile(s)
		if err != nil {
			all.invalid = append(all.invalid, err)
			continue
		}
		all.lifecycles[p.Kind] = append(all.lifecycles[p.Kind], p)
	}
	return all, nil
}

// lifecycle returns the Stages of a kind in the newest state.
func (c *Controller) lifecycle(kind schema.GroupVersionKind) stage.Lifecycle {
	all, err := c.written.Get()
	if err != nil {
		return nil
	}
	return all.lifecycles[kind]
}

// Run runs the Stages until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer c.parts.Wait()
	defer cancel()
	c.mu.Lock()
	c.life = ctx
	c.mu.Unlock()
	return c.cfg.Store.Follow(ctx, stage.Resource,
		func(*store.Snapshot) { c.reload(ctx) }, func([]*store.Event) { c.reload(ctx) })
}

// reload applies the newest Stages: it follows the kinds that they name and looks at all of their
// objects again.
func (c *Controller) reload(ctx context.Context) {
	all, err := c.written.Get()
	if err != nil {
		return // the store is closed
	}
	for _, err := range all.invalid {
		c.cfg.Log.Warn("invalid Stage has no effect", "error", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for gvk, k := range c.kinds {
		if all.lifecycles[gvk] == nil {
			delete(c.kinds, gvk)
			k.end()
		}
	}
	for _, gvk := range slices.SortedFunc(maps.Keys(all.lifecycles), func(a, b schema.GroupVersionKind) int {
		return cmp.Compare(a.String(), b.String())
	}) {
		if k := c.kinds[gvk]; k != nil {
			k.recheck(func(*store.Object) bool { return true })
			continue
		}
		k := newKind(ctx, c, gvk)
		c.kinds[gvk] = k
		c.record.Do(func() { c.parts.Go(func() { _ = c.events.Run(ctx) }) })
		c.parts.Go(k.run)
	}
}

// RunsPod reports whether Stages run a pod instead of the simulation. It is called for pods that
// are new to their node.
func (c *Controller) RunsPod(obj *store.Object, pod *corev1.Pod) bool {
	lifecycle := c.lifecycle(podKind)
	if lifecycle == nil {
		return false
	}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for _, status := range list {
			if strings.HasPrefix(status.ContainerID, simulated.Scheme) {
				return false
			}
		}
	}
	if pod.Status.StartTime != nil || len(pod.Status.ContainerStatuses) > 0 {
		return true // the simulation did not report this
	}
	return matches(lifecycle, obj, podKind)
}

// RunsNode reports whether Stages report the status of a node instead of the simulation. It is
// called for new nodes.
func (c *Controller) RunsNode(n *corev1.Node) bool {
	lifecycle := c.lifecycle(nodeKind)
	if lifecycle == nil {
		return false
	}
	if slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Reason != "NodeStatusNeverUpdated"
	}) {
		return n.Status.NodeInfo.MachineID != n.Name // only the simulation reports this MachineID
	}
	obj := c.cfg.Store.Snapshot().Get(store.Key{Resource: "nodes", Name: n.Name})
	return obj != nil && matches(lifecycle, obj, nodeKind)
}

func matches(lifecycle stage.Lifecycle, obj *store.Object, kind schema.GroupVersionKind) bool {
	o, err := stage.NewObject(obj.Data, kind.GroupVersion().String(), kind.Kind)
	if err != nil {
		return false
	}
	candidates, _ := lifecycle.Candidates(context.Background(), o)
	return len(candidates) > 0
}

// PodTaken examines a pod again that is now run by Stages instead of its agent. A deletion that was
// observed earlier has no plan yet, because the agent was to complete it.
func (c *Controller) PodTaken(key store.Key) {
	c.mu.Lock()
	pods := c.kinds[podKind]
	c.mu.Unlock()
	if pods == nil {
		return
	}
	if obj := c.cfg.Store.Snapshot().Get(key); obj != nil && !obj.Head.DeletionTimestamp.IsZero() {
		pods.look(obj)
	}
}

// NodeChanged checks a node and its pods again, after the node became simulated or stopped being
// silent.
func (c *Controller) NodeChanged(name string) {
	c.mu.Lock()
	nodes, pods := c.kinds[nodeKind], c.kinds[podKind]
	c.mu.Unlock()
	if nodes != nil {
		nodes.recheck(func(obj *store.Object) bool { return obj.Key.Name == name })
	}
	if pods != nil {
		pods.recheck(func(obj *store.Object) bool { return nodeOf(obj) == name })
	}
}

// nodeOf returns the node of a stored pod, or "".
func nodeOf(obj *store.Object) string {
	pod, err := derived.Of[corev1.Pod](obj)
	if err != nil {
		return ""
	}
	return pod.Spec.NodeName
}

// backoff returns the delay before a failed attempt is repeated.
func backoff(failures int) time.Duration {
	return min(time.Second<<min(failures, 10), 5*time.Minute)
}
