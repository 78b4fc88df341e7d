package v1

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kelson.dev/operator"
	"kelson.dev/operator/webhook"

	batchv1 "kelson.dev/examples/cronjob/api/v1"
	"kelson.dev/examples/cronjob/internal/controller"
)

// +kubebuilder:webhook:path=/mutate-batch-demo-welcome-domain-v1-cronjob,mutating=true,failurePolicy=fail,sideEffects=None,groups=batch.demo.welcome.domain,resources=cronjobs,verbs=create;update,versions=v1,name=mcronjob-v1.kb.io,admissionReviewVersions=v1
// +kubebuilder:webhook:path=/validate-batch-demo-welcome-domain-v1-cronjob,mutating=false,failurePolicy=fail,sideEffects=None,groups=batch.demo.welcome.domain,resources=cronjobs,verbs=create;update,versions=v1,name=vcronjob-v1.kb.io,admissionReviewVersions=v1

// CronJobWebhook defaults and validates CronJobs. Those of v2 are converted first, so they are judged as those of v1.
type CronJobWebhook struct{}

// NewCronJobWebhook makes one.
func NewCronJobWebhook(operator.Deps) *CronJobWebhook { return &CronJobWebhook{} }

var (
	_ webhook.Defaulter[batchv1.CronJob] = &CronJobWebhook{}
	_ webhook.Validator[batchv1.CronJob] = &CronJobWebhook{}
)

// Default leaves alone what was said.
func (*CronJobWebhook) Default(_ context.Context, cron *batchv1.CronJob) error {
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

// ValidateCreate judges a new one.
func (*CronJobWebhook) ValidateCreate(_ context.Context, cron *batchv1.CronJob) (webhook.Warnings, error) {
	return validate(cron)
}

// ValidateUpdate judges a changed one.
func (*CronJobWebhook) ValidateUpdate(_ context.Context, _, cron *batchv1.CronJob) (webhook.Warnings, error) {
	return validate(cron)
}

// ValidateDelete lets all go.
func (*CronJobWebhook) ValidateDelete(context.Context, *batchv1.CronJob) (webhook.Warnings, error) {
	return nil, nil
}

// maxName leaves room for what names of Jobs add: a hyphen and ten digits, of 63 characters.
const maxName = 52

func validate(cron *batchv1.CronJob) (webhook.Warnings, error) {
	var errs field.ErrorList
	if len(cron.Name) > maxName {
		errs = append(errs, field.TooLong(field.NewPath("metadata", "name"), cron.Name, maxName))
	}
	spec := field.NewPath("spec")
	if _, err := controller.ParseSchedule(cron.Spec.Schedule); err != nil {
		errs = append(errs, field.Invalid(spec.Child("schedule"), cron.Spec.Schedule, err.Error()))
	}
	var warnings webhook.Warnings
	if d := cron.Spec.StartingDeadlineSeconds; d != nil && *d < 10 {
		warnings = append(warnings, fmt.Sprintf("spec.startingDeadlineSeconds: with %d seconds, a Job is left out whenever the operator is restarted", *d))
	}
	if len(errs) > 0 {
		return warnings, apierrors.NewInvalid(batchv1.GroupVersion.WithKind("CronJob").GroupKind(), cron.Name, errs)
	}
	return warnings, nil
}
