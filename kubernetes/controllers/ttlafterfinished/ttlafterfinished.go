// Package ttlafterfinished replaces ttl-after-finished-controller: it deletes finished Jobs after
// their spec.ttlSecondsAfterFinished.
//
// The time starts with the condition Complete or Failed. A change of the Job is evaluated
// immediately, so it can prolong or shorten the time. The deletion is in the foreground: the pods
// are deleted before the Job.
package ttlafterfinished

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/operator/client"
)

// Config configures the controller. Store and Client are required.
type Config struct {
	Store *store.Store
	// Client deletes Jobs.
	Client client.Client
	Log    *slog.Logger
}

// Controller deletes the finished Jobs of one control plane.
type Controller struct{ cfg Config }

// New returns a controller; call Run to start it.
func New(cfg Config) *Controller { return &Controller{cfg} }

// Run runs the controller until ctx ends or the store is closed.
func (c *Controller) Run(ctx context.Context) error {
	return follow.Run(ctx, follow.Config[store.Key]{
		Name: "ttl after finished", Store: c.cfg.Store, Resources: []string{"jobs.batch"}, Log: c.cfg.Log, Sync: c.sync,
		Keys: func(obj *store.Object, add func(store.Key)) { add(obj.Key) },
	})
}

func (c *Controller) sync(ctx context.Context, key store.Key) (time.Duration, error) {
	obj := c.cfg.Store.Snapshot().Get(key)
	if obj == nil || !obj.Head.DeletionTimestamp.IsZero() {
		return 0, nil
	}
	job, err := derived.Of[batchv1.Job](obj)
	if err != nil {
		return 0, fmt.Errorf("read job: %w", err)
	}
	finished, ok := finishedAt(job)
	if !ok || job.Spec.TTLSecondsAfterFinished == nil {
		return 0, nil
	}
	due := finished.Add(time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second)
	if left := time.Until(due); left > 0 {
		return left, nil
	}
	// The precondition protects a Job whose time to live was changed meanwhile.
	revision := strconv.FormatUint(obj.Revision, 10)
	err = c.cfg.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationForeground),
		client.Preconditions{UID: obj.Head.UID, ResourceVersion: revision})
	if err = follow.IgnoreGone(c.cfg.Store, key, obj.Head.UID, err); err != nil {
		return 0, fmt.Errorf("delete job: %w", err)
	}
	return 0, nil
}

// finishedAt returns when a Job completed or failed; ok is false if it has not.
func finishedAt(job *batchv1.Job) (time.Time, bool) {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time, !c.LastTransitionTime.IsZero()
		}
	}
	return time.Time{}, false
}
