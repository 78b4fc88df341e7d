package explore

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"kelson.dev/operator/client"
)

// loseNode deletes a Node, and creates it again when everything is quiet.
func (a *actions) loseNode(name string) bool {
	var node corev1.Node
	ok := a.users.try(func(ctx context.Context, c client.Client) error {
		if err := c.Get(ctx, client.Key{Name: name}, &node); err != nil {
			return err
		}
		if err := c.Delete(ctx, node.DeepCopy()); err != nil || a.setup.wire == nil {
			return err
		}
		return removePods(ctx, c, name)
	})
	if !ok || !a.trial.settle() {
		return false
	}
	a.result.log("the node comes back")
	a.history.lost = append(a.history.lost, name)
	ok = a.users.try(func(ctx context.Context, c client.Client) error {
		if node.Name == "" {
			return nil // the Node had no Lease
		}
		again := node.DeepCopy()
		again.ObjectMeta = metav1.ObjectMeta{Name: node.Name, Labels: node.Labels, Annotations: node.Annotations}
		again.Spec.Taints = nil // the taints of a node that is not ready
		return c.Create(ctx, again)
	})
	if a.setup.wire != nil {
		return ok && a.trial.pass(schedulerRetry)
	}
	return ok
}

// schedulerRetry is how long Kubernetes' scheduler may take, in real time, until it tries again to
// find a node. It waits a second after the first attempt, and twice as long after the next.
const schedulerRetry = 3 * time.Second

// evictedAfter is how long Pods stay on a Node that does not answer, with a margin.
const evictedAfter = 6 * time.Minute

// silenceNode holds the writes of a Node's agent. It then marks the Node as unreachable, as
// Kubernetes' node lifecycle controller does with a Node without heartbeats. When everything is
// quiet, it lets the agent continue.
func (a *actions) silenceNode(name string) bool {
	if a.setup.wire != nil {
		a.result.failed = fmt.Errorf("%s needs virtual time: Kubernetes evicts Pods after five minutes, and the runs of a program take real time", SilenceNode)
		return false
	}
	var before corev1.Node
	ok := a.users.try(func(ctx context.Context, c client.Client) error {
		if err := c.Get(ctx, client.Key{Name: name}, &before); err != nil {
			return err
		}
		a.trial.injector.silent = name
		a.history.lost = append(a.history.lost, name)
		return markUnreachable(ctx, c, name)
	})
	if !ok || !a.trial.pass(evictedAfter) || !a.trial.settle() {
		return false
	}
	a.result.log("the node answers again")
	a.trial.injector.silent = ""
	return a.users.try(func(ctx context.Context, c client.Client) error {
		if before.Name == "" {
			return nil // the Node did not exist
		}
		return changeNode(ctx, c, name, func(node *corev1.Node) {
			node.Status.Conditions, node.Spec.Taints = before.Status.Conditions, before.Spec.Taints
		})
	})
}

// changeNode changes the status and then the rest of a Node. Controllers also change Nodes, so it
// retries after conflicts.
func changeNode(ctx context.Context, c client.Client, name string, change func(*corev1.Node)) error {
	for _, update := range []func(*corev1.Node) error{
		func(node *corev1.Node) error { return c.Subresource("status").Update(ctx, node, nil) },
		func(node *corev1.Node) error { return c.Update(ctx, node) },
	} {
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			var node corev1.Node
			if err := c.Get(ctx, client.Key{Name: name}, &node); err != nil {
				return err
			}
			change(&node)
			return update(&node)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// markUnreachable gives a Node the taints and conditions of one whose heartbeats are missing, and
// sets its Pods to not ready.
func markUnreachable(ctx context.Context, c client.Client, name string) error {
	now := metav1.Now()
	err := changeNode(ctx, c, name, func(node *corev1.Node) {
		for i := range node.Status.Conditions {
			one := &node.Status.Conditions[i]
			one.Status, one.Reason, one.Message, one.LastTransitionTime = corev1.ConditionUnknown, "NodeStatusUnknown",
				"Kubelet stopped posting node status.", now
		}
		for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
			taint := corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: effect, TimeAdded: &now}
			if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
				node.Spec.Taints = append(node.Spec.Taints, taint)
			}
		}
	})
	if err != nil {
		return err
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.MatchingFields{"spec.nodeName": name}); err != nil {
		return err
	}
	for i := range pods.Items {
		for j := range pods.Items[i].Status.Conditions {
			if one := &pods.Items[i].Status.Conditions[j]; one.Type == corev1.PodReady &&
				one.Status == corev1.ConditionTrue {
				one.Status, one.LastTransitionTime = corev1.ConditionFalse, now
				if err := client.IgnoreNotFound(c.Subresource("status").Update(ctx, &pods.Items[i], nil)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// removePods removes the Pods of a Node that no longer exists, as Kubernetes' garbage collector of
// Pods does.
func removePods(ctx context.Context, c client.Client, node string) error {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			pod.Status.Phase = corev1.PodFailed
			err := c.Subresource("status").Update(ctx, pod, nil)
			if err = client.IgnoreNotFound(err); err != nil {
				return err
			}
		}
		if err := client.IgnoreNotFound(c.Delete(ctx, pod, client.DeleteOptions{GracePeriodSeconds: new(int64)})); err != nil {
			return err
		}
	}
	return nil
}

// jump lets time pass, and meanwhile holds the requests, responses and events of the operator.
func (a *actions) jump(duration string) bool {
	d, err := time.ParseDuration(duration)
	if err != nil {
		a.result.failed = err
		return false
	}
	// the operator's next attempt may be late
	a.trial.operator.paused, a.trial.delays.denials = true, true
	defer func() { a.trial.operator.paused = false }()
	if a.setup.wire == nil {
		return a.trial.pass(d)
	}
	if d > wireHorizon {
		a.result.failed = fmt.Errorf("the clock jump of %v is too long: the runs of a program take real time, so it may be at most %v", d, wireHorizon)
		return false
	}
	a.trial.operator.process.mu.Lock()
	pid := a.trial.operator.process.pid
	a.trial.operator.process.mu.Unlock()
	if err := suspend(pid, true); err != nil {
		a.result.failed = fmt.Errorf("stop the operator's process: %w", err)
		return false
	}
	ok := a.trial.pass(d)
	if err := suspend(pid, false); err != nil && a.trial.operator.running() {
		a.result.failed = fmt.Errorf("continue the operator's process: %w", err)
		return false
	}
	return ok
}
