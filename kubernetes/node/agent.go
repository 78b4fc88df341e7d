package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"kelson.dev/kubernetes/linked"
	"kelson.dev/operator/client"
	"kelson.dev/operator/events"
)

// UserAgent is the User-Agent of the requests of an Agent, without the name of the node.
const UserAgent = "kubelet/"

// AgentConfig configures an Agent.
type AgentConfig struct {
	// Config connects to the API server, over any transport. Required.
	Config *rest.Config
	// Name is the name of the Node. Required.
	Name string
	// Runtime runs the containers. Required.
	Runtime Runtime
	// Address is the address of the node, and the hostIP of its pods; "" means 127.0.0.1.
	Address string
	// Labels and Taints are set on the Node in addition to the standard labels. Taints are
	// set only when the Agent creates the Node.
	Labels map[string]string
	Taints []corev1.Taint
	// Capacity is the node's capacity; nil means the runtime's default.
	Capacity corev1.ResourceList
	// ExternalCloud makes the node wait for a cloud-controller-manager, as a kubelet with
	// --cloud-provider=external does: a new Node has the taint uninitialized and names
	// Address in an annotation, and an initialized one keeps the addresses that the manager
	// sets.
	ExternalCloud bool
	// KeepTaints leaves the taint not-ready, which admission adds to every new Node, to the node
	// lifecycle controller of the cluster. Without that controller, the Agent must remove the taint
	// itself, which the admission plugin NodeRestriction does not allow to nodes.
	KeepTaints bool
	// Server is the address ("host:port") at which pods reach the API server, for
	// KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT; "" means that of the Service.
	Server string
	// Drivers are the CSI drivers that the node's CSINode lists; without any, it has no
	// CSINode.
	Drivers []string
	// Writes selects what the Agent writes about its Node; the zero value means everything.
	Writes NodeWrites
	// Pods passes the pods that the Agent runs to changed until ctx ends, one call at a time: old
	// is nil for a new pod, and pod is nil for a deleted one. In this way, agents of one process
	// can share a watch, or leave some pods of the node to others. nil: the Agent watches and runs
	// all pods of the node.
	Pods func(ctx context.Context, changed func(old, pod *corev1.Pod))
	// Version is the reported kubelet version; "" means DefaultVersion.
	Version string
	// LeaseDuration is how long the node counts as alive after its last heartbeat. The Agent
	// sends four heartbeats in that time. 0 means 40 seconds; if negative, the node has no
	// lease.
	LeaseDuration time.Duration
	// Renew, if not nil, renews the Lease of a node without a request. It returns false if it has
	// not done so; then the Agent sends the request.
	Renew func(ctx context.Context, name string, now time.Time) bool
	// Backlog is shared by the simulated nodes of a server. If nil, the agent joins without waiting
	// for others, and always reports a new pod before it starts the pod's containers.
	Backlog *Backlog
	// Like, if not nil, is a client of the same server. The agent uses its scheme and its mapper,
	// so that many agents read and hold the server's discovery documents once.
	Like client.Client
	// Log receives errors; nil discards them.
	Log *slog.Logger
}

// NodeWrites selects what an Agent writes about its Node. Each value includes the next one.
type NodeWrites int

const (
	// WritesNode: the Agent creates the Node unless it exists, replaces its labels, and writes what
	// WritesStatus includes.
	WritesNode NodeWrites = iota
	// WritesStatus: another client creates and deletes the Node. The Agent writes its status, with
	// the capacity, addresses and system information that it has, and what WritesLease includes.
	WritesStatus
	// WritesLease: another client also writes the Node's status. The Agent renews the Lease, adds
	// missing labels, and lists its drivers in the CSINode.
	WritesLease
	// WritesNothing: the Agent only runs pods.
	WritesNothing
)

// DefaultVersion is the kubelet version that agents report by default.
const DefaultVersion = "v" + linked.Kubernetes

// FieldOwner is the field manager of what Agents write.
const FieldOwner = "kubelet"

// Agent is a node: it runs the pods that are bound to it. It replaces the kubelet.
type Agent struct {
	config      AgentConfig
	client      client.Client
	broadcaster *events.Broadcaster
	events      reporter
	log         *slog.Logger

	mu      sync.Mutex
	workers map[types.UID]*worker
	running sync.WaitGroup
}

// NewAgent returns an agent; call Run to start it.
func NewAgent(config AgentConfig) (*Agent, error) {
	switch {
	case config.Name == "":
		return nil, errors.New("node agent: Name is empty")
	case config.Runtime == nil:
		return nil, errors.New("node agent: Runtime is nil")
	}
	if config.Address == "" {
		config.Address = "127.0.0.1"
	}
	if config.Capacity == nil {
		config.Capacity = config.Runtime.Info().Capacity
	}
	if config.Version == "" {
		config.Version = DefaultVersion
	}
	if config.LeaseDuration == 0 {
		config.LeaseDuration = 40 * time.Second
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	connection := rest.CopyConfig(config.Config)
	connection.UserAgent = UserAgent + config.Name
	own := client.Config{REST: connection, FieldOwner: FieldOwner}
	if config.Like != nil {
		own.Scheme, own.Mapper = config.Like.Scheme(), config.Like.Mapper()
	}
	c, err := client.New(own)
	if err != nil {
		return nil, fmt.Errorf("node agent: %w", err)
	}
	broadcaster := events.New(events.Config{Client: c, Log: config.Log})
	return &Agent{config: config, client: c, broadcaster: broadcaster, log: config.Log.With("node", config.Name),
		events: reporter{broadcaster.Recorder("kubelet").OnHost(config.Name)}, workers: map[types.UID]*worker{}}, nil
}

// Name returns the name of the node.
func (a *Agent) Name() string { return a.config.Name }

// Run registers the node and runs its pods until ctx ends. With WritesStatus and WritesLease, it
// also returns if the Node does not exist when it starts. It returns nil when the containers that
// can't outlive the agent have ended. The pods' objects stay unchanged on the server: a later agent
// with the same name adopts them. Run must be called at most once.
func (a *Agent) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	parts.Go(func() { _ = a.broadcaster.Run(ctx) })
	if a.config.Writes == WritesNothing || a.register(ctx) {
		if a.config.Writes != WritesNothing {
			parts.Go(func() { a.heartbeat(ctx) })
		}
		a.follow(ctx, func(old, pod *corev1.Pod) { a.changed(ctx, old, pod) })
	}
	a.running.Wait()
	parts.Wait()
	return nil
}

// follow passes the node's pods to changed until ctx ends.
func (a *Agent) follow(ctx context.Context, changed func(old, pod *corev1.Pod)) {
	if a.config.Pods != nil {
		a.config.Pods(ctx, changed)
		return
	}
	pods := &mirror[corev1.Pod, *corev1.Pod]{
		client: a.client, log: a.log, changed: changed,
		options: []client.ListOption{client.MatchingFields{"spec.nodeName": a.config.Name}},
	}
	_ = pods.run(ctx) // logs its errors
}

// changed passes a pod to its worker, and starts the worker of a new pod.
func (a *Agent) changed(ctx context.Context, old, pod *corev1.Pod) {
	gone := pod == nil
	if gone {
		pod = old
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	uid := pod.UID // the worker must not hold the first state of its pod
	w := a.workers[uid]
	switch {
	case w != nil:
		w.update(pod, gone)
	case !gone && ctx.Err() == nil:
		w = newWorker(a, pod)
		a.workers[uid] = w
		a.running.Add(1)
		w.begin(ctx, func() {
			a.mu.Lock()
			delete(a.workers, uid)
			a.mu.Unlock()
			close(w.ended)
			a.running.Done()
		})
	}
}

// Abandon ends the work on a pod because another client takes it over. After it has returned, the
// agent no longer writes to the pod, and has no state of its containers and their logs.
func (a *Agent) Abandon(uid types.UID) {
	if w := a.worker(uid); w != nil {
		w.abandon()
		<-w.ended
	}
}

// worker returns the worker of a pod, or nil if the agent does not run the pod.
func (a *Agent) worker(uid types.UID) *worker {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.workers[uid]
}

// reporter records events in a kubelet's form.
type reporter struct{ recorder *events.Recorder }

func (r reporter) pod(pod *corev1.Pod, kind, reason, message string) {
	r.recorder.Event(pod, kind, reason, message)
}

func (r reporter) container(pod *corev1.Pod, about *record, kind, reason, message string) {
	list := "initContainers"
	switch about.role {
	case roleMain:
		list = "containers"
	case roleEphemeral:
		list = "ephemeralContainers"
	}
	r.recorder.About(fmt.Sprintf("spec.%s{%s}", list, about.spec.Name)).Event(pod, kind, reason, message)
}
