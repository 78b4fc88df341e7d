package v1

import (
	"kelson.dev/operator"

	batchv1 "kelson.dev/examples/cronjob/api/v1"
)

// CronJobWebhook is the part of the operator that takes part when CronJob objects are written. Those of v2 are converted first, so they are
// judged as those of v1.
func CronJobWebhook() operator.Part {
	return operator.Webhook[batchv1.CronJob](NewCronJobHooks)
}

// CronJobHooks are called by the API server before it stores CronJob objects.
type CronJobHooks struct{ operator.Deps }

// NewCronJobHooks makes them.
func NewCronJobHooks(deps operator.Deps) *CronJobHooks { return &CronJobHooks{deps} }
