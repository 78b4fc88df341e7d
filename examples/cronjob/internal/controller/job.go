package controller

import (
	"fmt"
	"maps"
	"time"

	kbatchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1 "kelson.dev/examples/cronjob/api/v1"
)

// scheduledAnnotation is the time for which a Job was started.
const scheduledAnnotation = "batch.demo.welcome.domain/scheduled-at"

// labelsOf returns the labels of all Jobs of a CronJob.
func labelsOf(cron *batchv1.CronJob) map[string]string {
	return map[string]string{batchv1.GroupVersion.Group + "/cronjob": cron.Name}
}

// jobOf returns the Job for a time. Its name follows from the time, so there are never two.
func jobOf(cron *batchv1.CronJob, at time.Time) *kbatchv1.Job {
	job := &kbatchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:        fmt.Sprintf("%s-%d", cron.Name, at.Unix()),
			Labels:      maps.Clone(cron.Spec.JobTemplate.Labels),
			Annotations: maps.Clone(cron.Spec.JobTemplate.Annotations),
		},
		Spec: *cron.Spec.JobTemplate.Spec.DeepCopy(),
	}
	if job.Labels == nil {
		job.Labels = map[string]string{}
	}
	if job.Annotations == nil {
		job.Annotations = map[string]string{}
	}
	maps.Copy(job.Labels, labelsOf(cron))
	job.Annotations[scheduledAnnotation] = at.UTC().Format(time.RFC3339)
	return job
}

// scheduledAt returns the time for which a Job was started.
func scheduledAt(job *kbatchv1.Job) time.Time {
	if at, err := time.Parse(time.RFC3339, job.Annotations[scheduledAnnotation]); err == nil {
		return at
	}
	return job.CreationTimestamp.Time
}

func hasEnded(job *kbatchv1.Job, how kbatchv1.JobConditionType) bool {
	for _, c := range job.Status.Conditions {
		if c.Type == how && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
