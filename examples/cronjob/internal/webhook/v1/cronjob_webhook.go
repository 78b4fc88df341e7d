package v1

import (
	"kelson.dev/operator"

	batchv1 "kelson.dev/examples/cronjob/api/v1"
)

// CronJobWebhook returns the part of the operator that serves the admission webhooks of CronJob.
// Objects of v2 are converted first, so v1 webhooks validate them too.
func CronJobWebhook() operator.Part {
	return operator.Webhook[batchv1.CronJob](NewCronJobHooks)
}

// CronJobHooks has the methods that the API server calls before it stores CronJob objects.
type CronJobHooks struct{ operator.Deps }

// NewCronJobHooks returns the CronJobHooks of an operator.
func NewCronJobHooks(deps operator.Deps) *CronJobHooks { return &CronJobHooks{deps} }
