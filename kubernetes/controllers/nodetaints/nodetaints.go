// Package nodetaints does part of the work of node-lifecycle-controller: it maintains the
// NoSchedule taints that follow from a node's conditions and from spec.unschedulable. The admission
// plugin TaintNodesByCondition gives every new node the taint not-ready; this controller removes it
// when the node reports that it is ready.
//
// It does not touch taints with other keys or effects.
package nodetaints

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

// Config configures the controller. Store, Shared and Client are required.
type Config struct {
	Store *store.Store
	// Shared has the decoded nodes.
	Shared *sharing.Caches
	Client client.Client
	Log    *slog.Logger
}

// Controller maintains the node taints of one control plane.
type Controller struct{ cfg Config }

// New returns a controller; call Run to start it.
func New(cfg Config) *Controller { return &Controller{cfg} }

// Run runs the controller until ctx ends or the store is closed.
func (c *Controller) Run(ctx context.Context) error {
	return follow.Run(ctx, follow.Config[string]{
		Name: "node taints", Store: c.cfg.Store, Resources: []string{"nodes"}, Log: c.cfg.Log, Sync: c.sync,
		Keys: func(obj *store.Object, add func(string)) { add(obj.Key.Name) },
	})
}

func (c *Controller) sync(ctx context.Context, name string) (time.Duration, error) {
	node, err := c.cfg.Shared.Nodes.Get("", name)
	if err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	wanted := following(node)
	taints := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool {
		return managed(t) && !slices.Contains(wanted, t.Key)
	})
	for _, key := range wanted {
		if !slices.ContainsFunc(taints, func(t corev1.Taint) bool { return managed(t) && t.Key == key }) {
			now := metav1.Now()
			taints = append(taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule, TimeAdded: &now})
		}
	}
	if slices.EqualFunc(taints, node.Spec.Taints, func(a, b corev1.Taint) bool { return a.MatchTaint(&b) }) {
		return 0, nil
	}
	node = node.DeepCopy()
	node.Spec.Taints = taints
	key := store.Key{Resource: "nodes", Name: name}
	if err := follow.IgnoreGone(c.cfg.Store, key, node.UID, c.cfg.Client.Update(ctx, node)); err != nil {
		return 0, fmt.Errorf("taint node: %w", err)
	}
	return 0, nil
}

// byCondition maps the type and status of a condition to the key of a taint. Source: Kubernetes'
// documentation of node conditions.
var byCondition = map[corev1.NodeConditionType]map[corev1.ConditionStatus]string{
	corev1.NodeReady: {
		corev1.ConditionFalse:   corev1.TaintNodeNotReady,
		corev1.ConditionUnknown: corev1.TaintNodeUnreachable,
	},
	corev1.NodeMemoryPressure:     {corev1.ConditionTrue: corev1.TaintNodeMemoryPressure},
	corev1.NodeDiskPressure:       {corev1.ConditionTrue: corev1.TaintNodeDiskPressure},
	corev1.NodePIDPressure:        {corev1.ConditionTrue: corev1.TaintNodePIDPressure},
	corev1.NodeNetworkUnavailable: {corev1.ConditionTrue: corev1.TaintNodeNetworkUnavailable},
}

var keys = func() []string {
	all := []string{corev1.TaintNodeUnschedulable}
	for _, byStatus := range byCondition {
		for _, key := range byStatus {
			all = append(all, key)
		}
	}
	return all
}()

func managed(t corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoSchedule && slices.Contains(keys, t.Key)
}

// following returns the keys of the taints that a node should have. A node that has not reported
// its readiness yet keeps its not-ready or unreachable taint.
func following(node *corev1.Node) []string {
	var wanted []string
	reported := false
	for _, c := range node.Status.Conditions {
		reported = reported || c.Type == corev1.NodeReady
		if key, ok := byCondition[c.Type][c.Status]; ok {
			wanted = append(wanted, key)
		}
	}
	if !reported {
		for _, t := range node.Spec.Taints {
			if managed(t) && (t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable) {
				wanted = append(wanted, t.Key)
			}
		}
	}
	if node.Spec.Unschedulable {
		wanted = append(wanted, corev1.TaintNodeUnschedulable)
	}
	return wanted
}
