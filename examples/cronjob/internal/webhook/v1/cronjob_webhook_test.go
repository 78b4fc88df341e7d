package v1_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/operatortest"

	batchv1 "kelson.dev/examples/cronjob/api/v1"
	batchv2 "kelson.dev/examples/cronjob/api/v2"
	webhookv1 "kelson.dev/examples/cronjob/internal/webhook/v1"
)

// newEnv returns a control plane that calls the operator's webhooks over HTTPS. It is ready when
// all of them are registered.
func newEnv(t *testing.T) *operatortest.Env {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{batchv1.AddToScheme, batchv2.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	env := operatortest.New(t, operatortest.CRDs("../../../config/crd/bases"), operatortest.Scheme(scheme),
		operatortest.Webhooks(),
		operatortest.Operator(operator.Name("cronjob"), operator.AddToScheme(batchv1.AddToScheme, batchv2.AddToScheme),
			webhookv1.CronJobWebhook(), operator.Conversion[batchv1.CronJob]()))
	env.Eventually(t, time.Minute, func() bool {
		probe := &batchv2.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "probe", Namespace: "default"}}
		// v2 accepts it, v1 does not: conversion is needed to reject it
		probe.Spec.Schedule.Minute = "61"
		probe.Spec.JobTemplate = cron("probe", "").Spec.JobTemplate
		return apierrors.IsInvalid(env.Client().Create(t.Context(), probe, client.DryRunAll))
	})
	env.Eventually(t, time.Minute, func() bool {
		probe := cron("probe", "* * * * *")
		err := env.Client().Create(t.Context(), probe, client.DryRunAll)
		return err == nil && probe.Spec.Suspend != nil
	})
	return env
}

func cron(name, schedule string) *batchv1.CronJob {
	c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	c.Spec.Schedule = schedule
	c.Spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}},
	}
	return c
}

func TestWebhooks(t *testing.T) {
	env := newEnv(t)

	c := cron("fine", "*/5 1 * * MON")
	env.Create(t, c)
	if c.Spec.ConcurrencyPolicy != batchv1.AllowConcurrent || *c.Spec.SuccessfulJobsHistoryLimit != 3 ||
		*c.Spec.FailedJobsHistoryLimit != 1 || *c.Spec.Suspend {
		t.Errorf("defaults: %+v", c.Spec)
	}
	explicit, zero := cron("explicit", "@daily"), int32(0)
	explicit.Spec.ConcurrencyPolicy, explicit.Spec.SuccessfulJobsHistoryLimit = batchv1.ForbidConcurrent, &zero
	env.Create(t, explicit)
	if explicit.Spec.ConcurrencyPolicy != batchv1.ForbidConcurrent || *explicit.Spec.SuccessfulJobsHistoryLimit != 0 {
		t.Errorf("explicit values were overwritten: %+v", explicit.Spec)
	}

	for _, wrong := range []*batchv1.CronJob{cron("wrong", "61 * * * *"), cron("wrong", "* * * *"),
		cron(strings.Repeat("x", 53), "* * * * *")} {
		if err := env.Client().Create(t.Context(), wrong); !apierrors.IsInvalid(err) {
			t.Errorf("%s, %q: %v", wrong.Name, wrong.Spec.Schedule, err)
		}
	}
	c.Spec.Schedule = "tomorrow"
	if err := env.Client().Update(t.Context(), c); !apierrors.IsInvalid(err) {
		t.Errorf("update: %v", err)
	}

	// Read the same object in the other version.
	v2 := &batchv2.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "fine", Namespace: "default"}}
	env.Get(t, v2)
	if want := (batchv2.CronSchedule{Minute: "*/5", Hour: "1", DayOfMonth: "*", Month: "*", DayOfWeek: "MON"}); v2.Spec.Schedule != want {
		t.Errorf("as v2: %+v", v2.Spec.Schedule)
	}
	v2.Spec.Schedule.Hour = "2-4"
	if err := env.Client().Update(t.Context(), v2); err != nil {
		t.Fatal(err)
	}
	if env.Get(t, c); c.Spec.Schedule != "*/5 2-4 * * MON" {
		t.Errorf("back as v1: %q", c.Spec.Schedule)
	}
	// v2's schema accepts this object, and v1's webhook rejects it.
	v2.Spec.Schedule.Minute = "61"
	if err := env.Client().Update(t.Context(), v2); !apierrors.IsInvalid(err) {
		t.Errorf("update of v2: %v", err)
	}
	v2.Spec.Schedule.Minute = "a b"
	if err := env.Client().Update(t.Context(), v2); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "spec.schedule.minute") {
		t.Errorf("update of v2 with blanks: %v", err)
	}
}
