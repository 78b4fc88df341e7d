package flowcontrol

import (
	"context"
	"errors"
	"fmt"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/util/apihelpers"
	upstream "k8s.io/apiserver/pkg/util/flowcontrol"
	apply "k8s.io/client-go/applyconfigurations/flowcontrol/v1"
	client "k8s.io/client-go/kubernetes/typed/flowcontrol/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// Run writes to the status of each FlowSchema whether its priority level exists, as Kubernetes
// does, until ctx ends. It waits until one of these objects changes or a request needs the
// configuration, because reading the configuration takes longer than the rest of a start. After Run
// has returned, limits are not adjusted.
func (c *Controller) Run(ctx context.Context) error {
	defer c.stop()
	cursors, err := c.follow(c.store.Snapshot())
	if err != nil {
		return err
	}
	wake, again := (<-chan struct{})(c.needed), (<-chan time.Time)(nil)
	for {
		select {
		case <-cursors[0].Ready():
		case <-cursors[1].Ready():
		case <-wake:
		case <-again:
		case <-ctx.Done():
			return ctx.Err()
		}
		wake, again = nil, nil
		sn := c.store.Snapshot()
		if cursors, err = c.follow(sn); err != nil {
			return err
		}
		pending, err := c.writeStatuses(ctx, sn)
		if err != nil {
			return err
		}
		if pending {
			// another server with the same store may have written it first
			again = time.After(adjustEvery)
		}
	}
}

// follow returns cursors that are ready when an object has changed since a state.
func (c *Controller) follow(sn *store.Snapshot) (cursors [2]*store.Cursor, err error) {
	for i, resource := range []string{flowSchemas, priorityLevels} {
		if cursors[i], err = c.store.Watch(resource, sn.Revision()); err != nil {
			return cursors, fmt.Errorf("follow %s: %w", resource, err)
		}
	}
	return cursors, nil
}

func (c *Controller) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	if c.adjuster != nil {
		c.adjuster.Stop()
	}
}

// writeStatuses updates the statuses of a state, and reports whether a write failed.
func (c *Controller) writeStatuses(ctx context.Context, sn *store.Snapshot) (pending bool, err error) {
	for fs, err := range derived.List[flowcontrolv1.FlowSchema](sn, flowSchemas, "") {
		if err != nil {
			continue
		}
		level, missing := sn.Get(store.Key{Resource: priorityLevels, Name: fs.Spec.PriorityLevelConfiguration.Name}),
			true
		if level != nil {
			pl, err := derived.Of[flowcontrolv1.PriorityLevelConfiguration](level)
			missing = err != nil || !usable(pl)
		}
		want := dangling(fs, missing)
		if current := apihelpers.GetFlowSchemaConditionByType(fs, want.Type); current != nil &&
			current.Status == want.Status && current.Reason == want.Reason && current.Message == want.Message {
			continue
		}
		err = c.writeStatus(ctx, fs.Name, want)
		if apierrors.IsNotFound(err) && c.store.Snapshot().Get(store.Key{Resource: flowSchemas, Name: fs.Name}) == nil {
			continue // deleted meanwhile
		}
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
				return false, err
			}
			pending = true
		}
	}
	return pending, nil
}

// dangling returns the condition that reports whether a FlowSchema's level is missing, with
// Kubernetes' messages.
func dangling(fs *flowcontrolv1.FlowSchema, missing bool) flowcontrolv1.FlowSchemaCondition {
	level := fs.Spec.PriorityLevelConfiguration.Name
	condition := flowcontrolv1.FlowSchemaCondition{
		Type: flowcontrolv1.FlowSchemaConditionDangling, Status: flowcontrolv1.ConditionFalse,
		LastTransitionTime: metav1.Now(), Reason: "Found",
		Message: fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q and it exists",
			level),
	}
	if missing {
		condition.Status, condition.Reason = flowcontrolv1.ConditionTrue, "NotFound"
		condition.Message = fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q but there is no such object", level)
	}
	return condition
}

func (c *Controller) writeStatus(ctx context.Context, name string, condition flowcontrolv1.FlowSchemaCondition) error {
	flows, err := client.NewForConfig(c.rest())
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	status := apply.FlowSchemaStatus().WithConditions(apply.FlowSchemaCondition().WithType(condition.Type).
		WithStatus(condition.Status).
		WithLastTransitionTime(condition.LastTransitionTime).WithReason(condition.Reason).
		WithMessage(condition.Message))
	_, err = flows.FlowSchemas().ApplyStatus(ctx, apply.FlowSchema(name).WithStatus(status),
		metav1.ApplyOptions{FieldManager: upstream.ConfigConsumerAsFieldManager, Force: true})
	return err
}
