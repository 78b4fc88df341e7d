package v2

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CronField is one field of a schedule in the format of cron: *, a number, a range, a step, a list
// of them, or names of months and days.
// +kubebuilder:validation:Pattern=`^[0-9A-Za-z*/,?-]+$`
// +kubebuilder:validation:MaxLength=100
type CronField string

// CronSchedule is a schedule, field by field. What is left out is *.
type CronSchedule struct {
	// minute, 0 to 59.
	// +optional
	// +kubebuilder:default="*"
	Minute CronField `json:"minute,omitempty"`

	// hour, 0 to 23.
	// +optional
	// +kubebuilder:default="*"
	Hour CronField `json:"hour,omitempty"`

	// dayOfMonth, 1 to 31.
	// +optional
	// +kubebuilder:default="*"
	DayOfMonth CronField `json:"dayOfMonth,omitempty"`

	// month, 1 to 12 or JAN to DEC.
	// +optional
	// +kubebuilder:default="*"
	Month CronField `json:"month,omitempty"`

	// dayOfWeek, 0 to 6 or SUN to SAT.
	// +optional
	// +kubebuilder:default="*"
	DayOfWeek CronField `json:"dayOfWeek,omitempty"`
}

// ConcurrencyPolicy says what happens when a Job is due while an earlier one still runs.
// +kubebuilder:validation:Enum=Allow;Forbid;Replace
type ConcurrencyPolicy string

// CronJobSpec says which Jobs run, and when.
type CronJobSpec struct {
	// schedule, field by field.
	// +required
	Schedule CronSchedule `json:"schedule"`

	// startingDeadlineSeconds is how late a Job may start; one that is later is left out. By
	// default any time is good enough.
	// +optional
	// +kubebuilder:validation:Minimum=0
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`

	// concurrencyPolicy says what happens when a Job is due while an earlier one still runs: Allow
	// (the default), Forbid or Replace.
	// +optional
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`

	// suspend keeps Jobs from being started. Running Jobs continue.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// jobTemplate is what the Jobs are made of.
	// +required
	JobTemplate batchv1.JobTemplateSpec `json:"jobTemplate"`

	// successfulJobsHistoryLimit is how many Jobs that succeeded are kept.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`

	// failedJobsHistoryLimit is how many Jobs that failed are kept.
	// +optional
	// +kubebuilder:validation:Minimum=0
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`
}

// CronJobStatus is what became of it.
type CronJobStatus struct {
	// active are the Jobs that run.
	// +optional
	// +listType=atomic
	Active []corev1.ObjectReference `json:"active,omitempty"`

	// lastScheduleTime is the time for which a Job was last started.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`

	// observedGeneration is the generation that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions say what holds of it: Scheduled, and, if the spec can't be followed, Accepted.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CronJob runs Jobs by a schedule.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Minute",type=string,JSONPath=`.spec.schedule.minute`
// +kubebuilder:printcolumn:name="Hour",type=string,JSONPath=`.spec.schedule.hour`
// +kubebuilder:printcolumn:name="Suspend",type=boolean,JSONPath=`.spec.suspend`
// +kubebuilder:printcolumn:name="Last Schedule",type=date,JSONPath=`.status.lastScheduleTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type CronJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which Jobs run, and when.
	// +required
	Spec CronJobSpec `json:"spec"`

	// status is what became of it.
	// +optional
	Status CronJobStatus `json:"status,omitempty"`
}

// CronJobList is a list of CronJob objects.
// +kubebuilder:object:root=true
type CronJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CronJob `json:"items"`
}
