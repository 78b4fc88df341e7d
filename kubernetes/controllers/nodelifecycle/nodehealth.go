// Package nodelifecycle gives conditions to nodes that nothing ever reported for: a minute after such a node was made, its readiness and what
// it may be short of are Unknown, as one sees in `kubectl describe node`.
//
// A node whose readiness was ever reported is left alone, also when its lease has ended.
package nodelifecycle

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/operator/client"
)

// StartupGrace is how long a new node has until it must have reported. Source: kube-controller-manager's --node-startup-grace-period.
const StartupGrace = time.Minute

// conditions are what a kubelet reports.
var conditions = []corev1.NodeConditionType{
	corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
}

// Config is what the controller works on.
type Config struct {
	Store *store.Store
	// Client writes.
	Client client.Client
	Log    *slog.Logger
}

// Controller is the controller of one control plane.
type Controller struct{ cfg Config }

// New returns a controller; Run makes it work.
func New(cfg Config) *Controller { return &Controller{cfg} }

// Run works until ctx ends or the store is closed.
func (c *Controller) Run(ctx context.Context) error {
	return follow.Run(ctx, follow.Config[string]{
		Name: "node health", Store: c.cfg.Store, Resources: []string{"nodes"}, Log: c.cfg.Log, Sync: c.sync,
		Keys: func(obj *store.Object, add func(string)) { add(obj.Key.Name) },
	})
}

func (c *Controller) sync(ctx context.Context, name string) (time.Duration, error) {
	node, err := derived.Get[corev1.Node](c.cfg.Store.Snapshot(), "nodes", "", name)
	if err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	if node.DeletionTimestamp != nil || has(node, corev1.NodeReady) {
		return 0, nil
	}
	if left := time.Until(node.CreationTimestamp.Add(StartupGrace)); left > 0 {
		return left, nil
	}
	node = node.DeepCopy()
	for _, kind := range conditions {
		if !has(node, kind) {
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
				Type: kind, Status: corev1.ConditionUnknown,
				Reason: "NodeStatusNeverUpdated", Message: "Kubelet never posted node status.",
				LastHeartbeatTime: node.CreationTimestamp, LastTransitionTime: metav1.Now(),
			})
		}
	}
	err = c.cfg.Client.Subresource("status").Update(ctx, node, nil)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return 0, nil // it was written, perhaps by its kubelet, which brings it here again
	}
	if err != nil {
		return 0, fmt.Errorf("write node status: %w", err)
	}
	return 0, nil
}

func has(node *corev1.Node, kind corev1.NodeConditionType) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
}
