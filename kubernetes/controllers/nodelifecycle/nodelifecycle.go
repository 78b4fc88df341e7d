// Package nodelifecycle does part of the work of node-lifecycle-controller: if a node's status has
// not been reported one minute after the node was created, it sets the node's conditions to
// Unknown, as `kubectl describe node` shows them.
//
// It does not change a node once its readiness has been reported, even if its Lease has expired.
// For such nodes, package workloads runs Kubernetes' own controller as soon as the first node has a
// Lease. That controller polls ten times a second, which nodes without heartbeats do not need.
// Package nodetaints maintains the taints.
package nodelifecycle

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/kubernetes/controllers/sharing"
	"kelson.dev/operator/client"
)

// startupGrace is how long after its creation a node may take to report its status. Source:
// kube-controller-manager's --node-startup-grace-period.
const startupGrace = time.Minute

// conditions are the conditions that a kubelet reports.
var conditions = []corev1.NodeConditionType{
	corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
}

// Config configures the controller. Store, Shared and Client are required.
type Config struct {
	Store *store.Store
	// Shared has the decoded nodes.
	Shared *sharing.Caches
	// Client writes the status of nodes.
	Client client.Client
	Log    *slog.Logger
}

// Controller monitors the nodes of one control plane.
type Controller struct{ cfg Config }

// New returns a controller; call Run to start it.
func New(cfg Config) *Controller { return &Controller{cfg} }

// Run runs the controller until ctx ends or the store is closed.
func (c *Controller) Run(ctx context.Context) error {
	return follow.Run(ctx, follow.Config[string]{
		Name: "node health", Store: c.cfg.Store, Resources: []string{"nodes"}, Log: c.cfg.Log, Sync: c.sync,
		Keys: func(obj *store.Object, add func(string)) { add(obj.Key.Name) },
	})
}

func (c *Controller) sync(ctx context.Context, name string) (time.Duration, error) {
	node, err := c.cfg.Shared.Nodes.Get("", name)
	if err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	if node.DeletionTimestamp != nil || hasCondition(node, corev1.NodeReady) {
		return 0, nil
	}
	if left := time.Until(node.CreationTimestamp.Add(startupGrace)); left > 0 {
		return left, nil
	}
	node = node.DeepCopy()
	for _, kind := range conditions {
		if !hasCondition(node, kind) {
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
				Type: kind, Status: corev1.ConditionUnknown,
				Reason: "NodeStatusNeverUpdated", Message: "Kubelet never posted node status.",
				LastHeartbeatTime: node.CreationTimestamp, LastTransitionTime: metav1.Now(),
			})
		}
	}
	err = c.cfg.Client.Subresource("status").Update(ctx, node, nil)
	if err = follow.IgnoreGone(c.cfg.Store, store.Key{Resource: "nodes", Name: name}, node.UID, err); err != nil {
		return 0, fmt.Errorf("write node status: %w", err) // for example, the kubelet was first
	}
	return 0, nil
}

func hasCondition(node *corev1.Node, kind corev1.NodeConditionType) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
}
