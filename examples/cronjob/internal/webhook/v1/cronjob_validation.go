package v1

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"kelson.dev/operator/webhook"

	batchv1 "kelson.dev/examples/cronjob/api/v1"
	"kelson.dev/examples/cronjob/internal/controller"
)

// +kubebuilder:webhook:path=/validate-batch-demo-welcome-domain-v1-cronjob,mutating=false,failurePolicy=fail,sideEffects=None,groups=batch.demo.welcome.domain,resources=cronjobs,verbs=create;update,versions=v1,name=vcronjob-v1.kb.io,admissionReviewVersions=v1

var _ webhook.Validator[batchv1.CronJob] = (*CronJobHooks)(nil)

// ValidateCreate validates a new CronJob.
func (*CronJobHooks) ValidateCreate(_ context.Context, cron *batchv1.CronJob) (webhook.Warnings, error) {
	return validate(cron)
}

// ValidateUpdate validates a changed CronJob.
func (*CronJobHooks) ValidateUpdate(_ context.Context, _, cron *batchv1.CronJob) (webhook.Warnings, error) {
	return validate(cron)
}

// ValidateDelete allows every deletion.
func (*CronJobHooks) ValidateDelete(context.Context, *batchv1.CronJob) (webhook.Warnings, error) {
	return nil, nil
}

// maxName is the maximum length of a CronJob's name. Names of Jobs have at most 63 characters and
// add a hyphen and ten digits.
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
		warnings = append(warnings, fmt.Sprintf(
			"spec.startingDeadlineSeconds: with %d seconds, every restart of the operator can skip a Job", *d))
	}
	if len(errs) > 0 {
		return warnings, apierrors.NewInvalid(batchv1.GroupVersion.WithKind("CronJob").GroupKind(), cron.Name, errs)
	}
	return warnings, nil
}
