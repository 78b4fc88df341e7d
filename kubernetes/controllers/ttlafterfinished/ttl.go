// Package ttlafterfinished deletes Jobs some time after they finished, as their spec.ttlSecondsAfterFinished asks.
//
// The time counts from the condition that says the Job is complete or failed. A Job that is changed is looked at anew, so a longer or
// shorter time counts from then on. Its pods go with it: the Job itself is deleted last.
package ttlafterfinished

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/operator/client"
)

// Config is what the controller works on.
type Config struct {
	Store *store.Store
	// Client deletes.
	Client client.Client
	Log    *slog.Logger
}

// Controller is the controller of one control plane.
type Controller struct{ cfg Config }

// New returns a controller; Run makes it work.
func New(cfg Config) *Controller { return &Controller{cfg} }

// Run works until ctx ends or the store is closed.
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
	// Only as it was looked at: the time to live may have been changed meanwhile.
	revision := strconv.FormatUint(obj.Revision, 10)
	err = c.cfg.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationForeground),
		client.Preconditions{UID: obj.Head.UID, ResourceVersion: revision})
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("delete job: %w", err)
	}
	return 0, nil
}

// finishedAt is when a Job completed or failed.
func finishedAt(job *batchv1.Job) (time.Time, bool) {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time, !c.LastTransitionTime.IsZero()
		}
	}
	return time.Time{}, false
}
