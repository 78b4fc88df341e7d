package v2

import (
	"fmt"
	"maps"
	"strings"

	"kelson.dev/operator/webhook"

	batchv1 "kelson.dev/examples/cronjob/api/v1"
)

// scheduleAnnotation keeps a schedule of v1 that does not have five fields, such as @daily, so that
// the conversion loses nothing.
const scheduleAnnotation = "batch.demo.welcome.domain/schedule"

// ConvertTo converts the CronJob to v1.
func (c *CronJob) ConvertTo(hub webhook.Hub) error {
	to, ok := hub.(*batchv1.CronJob)
	if !ok {
		return fmt.Errorf("the hub of CronJob is %T, not %T", &batchv1.CronJob{}, hub)
	}
	c.ObjectMeta.DeepCopyInto(&to.ObjectMeta)
	to.Spec = batchv1.CronJobSpec{
		Schedule:                   c.Spec.Schedule.String(),
		StartingDeadlineSeconds:    c.Spec.StartingDeadlineSeconds,
		ConcurrencyPolicy:          batchv1.ConcurrencyPolicy(c.Spec.ConcurrencyPolicy),
		Suspend:                    c.Spec.Suspend,
		JobTemplate:                c.Spec.JobTemplate,
		SuccessfulJobsHistoryLimit: c.Spec.SuccessfulJobsHistoryLimit,
		FailedJobsHistoryLimit:     c.Spec.FailedJobsHistoryLimit,
	}
	to.Status = batchv1.CronJobStatus(c.Status)
	if kept, ok := to.Annotations[scheduleAnnotation]; ok {
		if c.Spec.Schedule.any() {
			to.Spec.Schedule = kept
		}
		// otherwise the fields were changed and take precedence
		delete(to.Annotations, scheduleAnnotation)
		if len(to.Annotations) == 0 {
			to.Annotations = nil
		}
	}
	return nil
}

// ConvertFrom converts the CronJob from v1.
func (c *CronJob) ConvertFrom(hub webhook.Hub) error {
	from, ok := hub.(*batchv1.CronJob)
	if !ok {
		return fmt.Errorf("the hub of CronJob is %T, not %T", &batchv1.CronJob{}, hub)
	}
	from.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Spec = CronJobSpec{
		StartingDeadlineSeconds:    from.Spec.StartingDeadlineSeconds,
		ConcurrencyPolicy:          ConcurrencyPolicy(from.Spec.ConcurrencyPolicy),
		Suspend:                    from.Spec.Suspend,
		JobTemplate:                from.Spec.JobTemplate,
		SuccessfulJobsHistoryLimit: from.Spec.SuccessfulJobsHistoryLimit,
		FailedJobsHistoryLimit:     from.Spec.FailedJobsHistoryLimit,
	}
	c.Status = CronJobStatus(from.Status)
	schedule, ok := parse(from.Spec.Schedule)
	c.Spec.Schedule = schedule
	if !ok {
		c.Annotations = maps.Clone(c.Annotations)
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[scheduleAnnotation] = from.Spec.Schedule
	}
	return nil
}

// parse splits a schedule of v1 into its fields; ok reports whether String returns the same
// schedule.
func parse(schedule string) (s CronSchedule, ok bool) {
	s = CronSchedule{"*", "*", "*", "*", "*"}
	fields := strings.Split(schedule, " ")
	if len(fields) != 5 {
		return s, false
	}
	for i, to := range []*CronField{&s.Minute, &s.Hour, &s.DayOfMonth, &s.Month, &s.DayOfWeek} {
		*to = CronField(fields[i])
	}
	return s, s.String() == schedule
}

// String returns the schedule in cron format.
func (s CronSchedule) String() string {
	var fields []string
	for _, f := range []CronField{s.Minute, s.Hour, s.DayOfMonth, s.Month, s.DayOfWeek} {
		if f == "" {
			f = "*"
		}
		fields = append(fields, string(f))
	}
	return strings.Join(fields, " ")
}

// any reports whether all fields are empty: every minute.
func (s CronSchedule) any() bool { return s.String() == "* * * * *" }
