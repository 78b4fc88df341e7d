package controller

import (
	"cmp"
	"context"
	"slices"
	"time"

	kbatchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/reconcile"

	batchv1 "kelson.dev/examples/cronjob/api/v1"
)

// +kubebuilder:rbac:groups=batch.demo.welcome.domain,resources=cronjobs,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch.demo.welcome.domain,resources=cronjobs/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=batch.demo.welcome.domain,resources=cronjobs/finalizers,verbs=update
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;patch;delete

// ConditionScheduled is true while the schedule starts Jobs; otherwise its reason is why not.
const ConditionScheduled = "Scheduled"

// CronJobController returns the part of the operator that reconciles CronJob objects.
func CronJobController() operator.Part {
	return operator.For(NewCronJobReconciler, operator.Owns[kbatchv1.Job]())
}

// CronJobReconciler starts Jobs when they are due.
type CronJobReconciler struct{ operator.Deps }

// NewCronJobReconciler returns a CronJobReconciler.
func NewCronJobReconciler(deps operator.Deps) *CronJobReconciler { return &CronJobReconciler{deps} }

// Reconcile is called when a CronJob or one of its Jobs has changed, and when the next Job is due.
func (r *CronJobReconciler) Reconcile(ctx context.Context, cron *batchv1.CronJob) (operator.Result, error) {
	schedule, err := ParseSchedule(cron.Spec.Schedule)
	if err != nil {
		return operator.Invalid("spec.schedule", err)
	}
	jobs, err := r.jobsOf(ctx, cron)
	if err != nil {
		return operator.Result{}, err
	}
	cron.Status.Active = nil
	for _, job := range jobs.active {
		cron.Status.Active = append(cron.Status.Active, reference(job))
	}
	for _, old := range slices.Concat(
		jobs.beyond(jobs.successful, cron.Spec.SuccessfulJobsHistoryLimit, 3),
		jobs.beyond(jobs.failed, cron.Spec.FailedJobsHistoryLimit, 1),
	) {
		if err := r.delete(ctx, old); err != nil {
			return operator.Result{}, err
		}
	}
	if cron.Spec.Suspend != nil && *cron.Spec.Suspend {
		reconcile.SetCondition(cron, condition(false, "Suspended", "spec.suspend is true"))
		return operator.Result{}, nil
	}

	reconcile.SetCondition(cron, condition(true, "OnSchedule", "Jobs are started when they are due"))
	now := time.Now()
	due := schedule.due(earliest(cron, now), now)
	if due.times == 0 {
		return operator.After(time.Until(schedule.Next(now))), nil
	}
	if deadline := cron.Spec.StartingDeadlineSeconds; deadline != nil &&
		now.Sub(due.last) > time.Duration(*deadline)*time.Second {
		r.Events.Eventf(cron, corev1.EventTypeWarning, "MissedSchedule",
			"no Job was started for %s: it is too late by now", due.last.UTC().Format(time.RFC3339))
		cron.Status.LastScheduleTime = &metav1.Time{Time: due.last}
		return operator.After(time.Until(schedule.Next(now))), nil
	}
	if len(jobs.active) > 0 {
		switch cron.Spec.ConcurrencyPolicy {
		case batchv1.ForbidConcurrent:
			reconcile.SetCondition(cron, condition(false, "StillRunning", "the next Job waits for the one before it"))
			// the end of the running Job also triggers a reconcile
			return operator.After(time.Until(schedule.Next(now))), nil
		case batchv1.ReplaceConcurrent:
			for _, job := range jobs.active {
				if err := r.delete(ctx, job); err != nil {
					return operator.Result{}, err
				}
			}
			cron.Status.Active = nil
		}
	}
	job, err := operator.Apply(ctx, r.Client, jobOf(cron, due.last))
	if err != nil {
		return operator.Result{}, err
	}
	if due.times > 1 {
		r.Events.Eventf(cron, corev1.EventTypeWarning, "MissedSchedule",
			"of %d Jobs that were due only the last is started", due.times)
	}
	r.Events.Eventf(cron, corev1.EventTypeNormal, "Started", "started Job %s", job.Name)
	cron.Status.Active = append(cron.Status.Active, reference(job))
	cron.Status.LastScheduleTime = &metav1.Time{Time: due.last}
	return operator.After(time.Until(schedule.Next(now))), nil
}

func (r *CronJobReconciler) delete(ctx context.Context, job *kbatchv1.Job) error {
	return client.IgnoreNotFound(r.Client.Delete(ctx, job,
		client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

// earliest returns the time after which Jobs are due: that of the last Job, or of the creation of
// the CronJob.
func earliest(cron *batchv1.CronJob, now time.Time) time.Time {
	since := cron.CreationTimestamp.Time
	if last := cron.Status.LastScheduleTime; last != nil {
		since = last.Time
	}
	if deadline := cron.Spec.StartingDeadlineSeconds; deadline != nil {
		if open := now.Add(-time.Duration(*deadline) * time.Second); open.After(since) &&
			cron.Status.LastScheduleTime != nil {
			since = open.Add(-time.Second) // older Jobs are past their deadline
		}
	}
	return since
}

// jobs returns the Jobs of a CronJob, in three lists from the oldest to the newest.
type jobs struct{ active, successful, failed []*kbatchv1.Job }

func (r *CronJobReconciler) jobsOf(ctx context.Context, cron *batchv1.CronJob) (jobs, error) {
	list, err := client.List[kbatchv1.Job](ctx, r.Client, client.InNamespace(cron.Namespace),
		client.MatchingLabels(labelsOf(cron)))
	if err != nil {
		return jobs{}, err
	}
	slices.SortFunc(list, func(a, b *kbatchv1.Job) int {
		return cmp.Or(scheduledAt(a).Compare(scheduledAt(b)), cmp.Compare(a.Name, b.Name))
	})
	var all jobs
	for _, job := range list {
		switch {
		case !metav1.IsControlledBy(job, cron) || job.DeletionTimestamp != nil:
		case hasEnded(job, kbatchv1.JobComplete):
			all.successful = append(all.successful, job)
		case hasEnded(job, kbatchv1.JobFailed):
			all.failed = append(all.failed, job)
		default:
			all.active = append(all.active, job)
		}
	}
	return all, nil
}

// beyond returns the oldest Jobs beyond the limit of a history.
func (jobs) beyond(list []*kbatchv1.Job, limit *int32, otherwise int) []*kbatchv1.Job {
	keep := otherwise
	if limit != nil {
		keep = int(*limit)
	}
	return list[:max(0, len(list)-keep)]
}

func condition(holds bool, reason, message string) metav1.Condition {
	c := metav1.Condition{Type: ConditionScheduled, Status: metav1.ConditionTrue, Reason: reason, Message: message}
	if !holds {
		c.Status = metav1.ConditionFalse
	}
	return c
}

func reference(job *kbatchv1.Job) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: job.Namespace, Name: job.Name,
		UID: job.UID}
}
