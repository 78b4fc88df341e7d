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

	"kelson.dev/operator/client"
	"kelson.dev/operator/events"
)

// AgentConfig of an Agent.
type AgentConfig struct {
	// Config is how to reach the API server; any transport. Required.
	Config *rest.Config
	// Name is the node's. Required.
	Name string
	// Runtime runs the containers. Required.
	Runtime Runtime
	// Address is the node's, and its pods' hostIP. Empty: 127.0.0.1.
	Address string
	// Labels and Taints are for the Node beside the usual labels. Taints are set when the Node is made, not changed later.
	Labels map[string]string
	Taints []corev1.Taint
	// Capacity is what the node offers to pods. nil: what the runtime says.
	Capacity corev1.ResourceList
	// Version is the kubelet version to report. Empty: DefaultVersion.
	Version string
	// LeaseDuration is how long the node counts as alive after it was last heard of; it is heard of four times in that time.
	// 0: 40 seconds. Negative: the node has no lease.
	LeaseDuration time.Duration
	// Log is told what went wrong. nil: nobody is.
	Log *slog.Logger
}

// DefaultVersion is the kubelet version that agents report unless told otherwise.
const DefaultVersion = "v1.37.1"

// Agent is a node: it runs the pods that are bound to it.
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

// NewAgent returns an agent that does nothing until Run.
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
	c, err := client.New(client.Config{REST: config.Config, FieldOwner: "kubelet"})
	if err != nil {
		return nil, fmt.Errorf("node agent: %w", err)
	}
	broadcaster := events.New(events.Config{Client: c, Log: config.Log})
	return &Agent{config: config, client: c, broadcaster: broadcaster, log: config.Log.With("node", config.Name),
		events: reporter{broadcaster.Recorder("kubelet").OnHost(config.Name)}, workers: map[types.UID]*worker{}}, nil
}

// Name is the node's.
func (a *Agent) Name() string { return a.config.Name }

// Run registers the node and runs its pods until ctx ends; then it ends what must not outlive it, and returns nil. The pods stay
// on the server as they are: an agent of the same name takes them over. It must be called once only.
func (a *Agent) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	parts.Go(func() { a.broadcaster.Run(ctx) })
	if a.register(ctx) {
		parts.Go(func() { a.heartbeat(ctx) })
		pods := &mirror[corev1.Pod, *corev1.Pod]{
			client: a.client, log: a.log,
			options: []client.ListOption{client.MatchingFields{"spec.nodeName": a.config.Name}},
			changed: func(old, pod *corev1.Pod) { a.changed(ctx, old, pod) },
		}
		pods.run(ctx)
	}
	a.running.Wait()
	parts.Wait()
	return nil
}

// changed hands a pod to its worker.
func (a *Agent) changed(ctx context.Context, old, pod *corev1.Pod) {
	gone := pod == nil
	if gone {
		pod = old
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.workers[pod.UID]
	switch {
	case w != nil:
		w.update(pod, gone)
	case !gone && ctx.Err() == nil:
		w = newWorker(a, pod)
		a.workers[pod.UID] = w
		a.running.Go(func() {
			w.run(ctx)
			a.mu.Lock()
			defer a.mu.Unlock()
			delete(a.workers, pod.UID)
		})
	}
}

// worker is the one of a pod; nil when the agent does not know the pod.
func (a *Agent) worker(uid types.UID) *worker {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.workers[uid]
}

// reporter records events as a kubelet does.
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
