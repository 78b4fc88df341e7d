// Command cronjob is the operator.
package main

import (
	batchv1 "kelson.dev/examples/cronjob/api/v1"
	batchv2 "kelson.dev/examples/cronjob/api/v2"
	"kelson.dev/examples/cronjob/internal/controller"
	webhookbatchv1 "kelson.dev/examples/cronjob/internal/webhook/v1"
	"kelson.dev/operator"
)

// Every operator may record events.
// +kubebuilder:rbac:groups="",resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

func main() {
	operator.Main(
		operator.Name("cronjob"),
		operator.AddToScheme(batchv1.AddToScheme, batchv2.AddToScheme),
		controller.CronJobController(),
		webhookbatchv1.CronJobWebhook(),
		operator.Conversion[batchv1.CronJob](),
	)
}
