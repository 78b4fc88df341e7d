package v1

import (
	"context"

	"kelson.dev/operator/webhook"

	batchv1 "kelson.dev/examples/cronjob/api/v1"
)

// +kubebuilder:webhook:path=/mutate-batch-demo-welcome-domain-v1-cronjob,mutating=true,failurePolicy=fail,sideEffects=None,groups=batch.demo.welcome.domain,resources=cronjobs,verbs=create;update,versions=v1,name=mcronjob-v1.kb.io,admissionReviewVersions=v1

var _ webhook.Defaulter[batchv1.CronJob] = (*CronJobHooks)(nil)

// Default sets only fields that are not set.
func (*CronJobHooks) Default(_ context.Context, cron *batchv1.CronJob) error {
	spec := &cron.Spec
	if spec.ConcurrencyPolicy == "" {
		spec.ConcurrencyPolicy = batchv1.AllowConcurrent
	}
	setDefault(&spec.Suspend, false)
	setDefault(&spec.SuccessfulJobsHistoryLimit, 3)
	setDefault(&spec.FailedJobsHistoryLimit, 1)
	return nil
}

func setDefault[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}
