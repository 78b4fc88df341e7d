package simulatednodes

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/kubernetes/controllers/sharing"
	"kelson.dev/kubernetes/identity"
	"kelson.dev/kubernetes/node"
	"kelson.dev/kubernetes/node/simulated"
	"kelson.dev/operator/client"
)

// Config configures a Controller. Store, REST, As and Runtime are required.
type Config struct {
	Store *store.Store
	// Shared has the pods and nodes that the agents share with other caches; nil means that they
	// share none.
	Shared *sharing.Caches
	// REST creates the nodes of Groups.
	REST *rest.Config
	// As returns the configuration of a client that acts as a user. Each agent acts as the kubelet
	// of its node, so that the Node authorizer and the plugin NodeRestriction bound its rights.
	As func(user.Info) *rest.Config
	// Runtime runs the containers of all nodes.
	Runtime *simulated.Runtime
	// Groups are the nodes to create at the start. Existing Nodes with their names stay as they
	// are.
	Groups []Group
	// Drivers are the CSI drivers of every node.
	Drivers []string
	// LeaseDuration is the duration of the nodes' Leases; see [node.AgentConfig].
	LeaseDuration time.Duration
	// Renew renews the Lease of a node without a request, or is nil; see [node.AgentConfig].
	Renew func(ctx context.Context, name string, now time.Time) bool
	// Stages, if not nil, run some of the pods and nodes instead of the agents.
	Stages Stages
	// ExternalCloud makes new nodes wait for a cloud-controller-manager.
	ExternalCloud bool
	Log           *slog.Logger
}

// Stages script pods and nodes; see package kelson.dev/kubernetes/controllers/stages.
type Stages interface {
	// RunsPod reports whether Stages run a pod that is new to its node.
	RunsPod(obj *store.Object, pod *corev1.Pod) bool
	// PodTaken is called after RunsPod has returned true, when Scripted returns true for the pod.
	PodTaken(key store.Key)
	// RunsNode reports whether Stages report the status of a new node.
	RunsNode(n *corev1.Node) bool
	// NodeChanged is called after a node has joined or left.
	NodeChanged(name string)
}

// Controller runs the simulated nodes of one control plane. Its methods are safe for concurrent
// use.
type Controller struct {
	cfg    Config
	create []*corev1.Node
	client client.Client
	feed   *feed

	// backlog is nil without Leases, as in tests: which reports are merged depends on the order of
	// goroutines, and tests must be repeatable.
	backlog *node.Backlog

	mu        sync.Mutex
	agents    map[string]*running
	addresses addresses
	parts     sync.WaitGroup
	feeding   bool
}

// running is a node whose agent runs.
type running struct {
	*node.Agent
	uid  types.UID
	stop func() // returns when the agent has ended
}

// New returns a controller; call Run to start it.
func New(cfg Config) (*Controller, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Shared == nil {
		cfg.Shared = sharing.New(cfg.Store)
	}
	create, err := Nodes(cfg.Groups...)
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.Config{REST: cfg.REST, FieldOwner: "kelson-nodes"})
	if err != nil {
		return nil, err
	}
	controller := &Controller{cfg: cfg, create: create, client: c, agents: map[string]*running{},
		feed: newFeed(cfg)}
	if cfg.LeaseDuration >= 0 {
		controller.backlog = node.NewBacklog()
	}
	return controller, nil
}

// Agent returns the agent of a simulated node, or nil if it does not run.
func (c *Controller) Agent(name string) *node.Agent {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.agents[name]; r != nil {
		return r.Agent
	}
	return nil
}

// Simulates reports whether a node exists, is simulated, and is not silent.
func (c *Controller) Simulates(name string) bool { return c.Agent(name) != nil }

// HandOver makes Stages run a pod instead of its agent. After it has returned, the agent no longer
// writes to the pod.
func (c *Controller) HandOver(key store.Key) {
	pod := c.feed.handOver(key)
	if pod == nil {
		return
	}
	if agent := c.Agent(pod.Spec.NodeName); agent != nil {
		agent.Abandon(pod.UID)
	}
}

// Scripted reports whether Stages run a pod, and not its agent.
func (c *Controller) Scripted(key store.Key) bool { return c.feed.isSkipped(key) }

// Address returns the address of a node.
func (c *Controller) Address(name string) string {
	n, err := c.node(name)
	if err != nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addresses.address(n)
}

// Run creates the nodes of Config.Groups and runs all simulated nodes until ctx ends. It returns
// when their agents have ended.
func (c *Controller) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer c.parts.Wait()
	defer cancel()
	for _, n := range c.create {
		if err := c.createNode(ctx, n); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			c.cfg.Log.Error("create simulated node", "node", n.Name, "error", err)
		}
	}
	return follow.Run(ctx, follow.Config[string]{
		Name: "simulated nodes", Store: c.cfg.Store, Resources: []string{"nodes"}, Log: c.cfg.Log,
		Keys: func(obj *store.Object, add func(string)) { add(obj.Key.Name) },
		Sync: func(_ context.Context, name string) (time.Duration, error) { return 0, c.sync(ctx, name) },
	})
}

func (c *Controller) createNode(ctx context.Context, n *corev1.Node) error {
	n = n.DeepCopy()
	if c.cfg.ExternalCloud {
		c.mu.Lock()
		address := c.addresses.address(n)
		c.mu.Unlock()
		metav1.SetMetaDataAnnotation(&n.ObjectMeta, cloudproviderapi.AnnotationAlphaProvidedIPAddr, address)
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule})
	}
	err := c.client.Create(ctx, n)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if found, err := c.node(n.Name); err == nil && !simulates(found) {
		return fmt.Errorf("a Node with this name exists and has no annotation %s=%s", Annotation, AnnotationValue)
	}
	return nil
}

func (c *Controller) node(name string) (*corev1.Node, error) {
	return c.cfg.Shared.Nodes.Get("", name)
}

func simulates(n *corev1.Node) bool { return n.Annotations[Annotation] == AnnotationValue }

// sync starts or ends the agent of a node. ctx bounds the life of the agent.
func (c *Controller) sync(ctx context.Context, name string) error {
	n, err := c.node(name)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	wanted := err == nil && simulates(n) && n.Annotations[AnnotationSilent] != "true"
	c.mu.Lock()
	current := c.agents[name]
	keep := current != nil && wanted && current.uid == n.UID
	if current != nil && !keep {
		delete(c.agents, name)
	}
	if err != nil {
		c.addresses.release(name)
	}
	c.mu.Unlock()
	if keep {
		return nil
	}
	if current != nil {
		current.stop()
	}
	if wanted {
		if err := c.start(ctx, n); err != nil {
			return err
		}
	}
	if c.cfg.Stages != nil {
		c.cfg.Stages.NodeChanged(name)
	}
	return nil
}

func (c *Controller) start(ctx context.Context, n *corev1.Node) error {
	writes := node.WritesStatus
	if c.cfg.Stages != nil && c.cfg.Stages.RunsNode(n) {
		writes = node.WritesLease
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	agent, err := node.NewAgent(node.AgentConfig{
		Config: c.cfg.As(identity.Node(n.Name)), Name: n.Name, Runtime: c.cfg.Runtime, Writes: writes, Address: c.addresses.address(n),
		Drivers: c.cfg.Drivers, LeaseDuration: c.cfg.LeaseDuration, Renew: c.cfg.Renew, ExternalCloud: c.cfg.ExternalCloud, KeepTaints: true, Log: c.cfg.Log,
		Backlog: c.backlog, Like: c.client,
		Pods: func(ctx context.Context, changed func(old, pod *corev1.Pod)) { c.feed.follow(ctx, n.Name, changed) },
	})
	if err != nil {
		return err
	}
	if !c.feeding { // control planes without simulated nodes do not read pods
		c.feeding = true
		c.parts.Go(func() {
			if err := c.feed.run(ctx); err != nil {
				c.cfg.Log.Warn("follow pods", "error", err)
			}
		})
	}
	life, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	c.agents[n.Name] = &running{Agent: agent, uid: n.UID, stop: func() { cancel(); <-ended }}
	c.parts.Go(func() {
		defer close(ended)
		_ = agent.Run(life) // always nil
	})
	return nil
}
