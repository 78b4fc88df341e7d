package v2

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CronField is one field of a schedule in cron format: *, a number, a range, a step, a list of
// these, or names of months and days.
// +kubebuilder:validation:Pattern=`^[0-9A-Za-z*/,?-]+$`
// +kubebuilder:validation:MaxLength=100
type CronField string

// CronSchedule is a schedule, field by field. The default of each field is *.
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

// ConcurrencyPolicy defines what happens when a Job is due while an earlier one still runs.
// +kubebuilder:validation:Enum=Allow;Forbid;Replace
type ConcurrencyPolicy string

// CronJobSpec defines which Jobs run, and when.
type CronJobSpec struct {
	// schedule defines when Jobs start.
	// +required
	Schedule CronSchedule `json:"schedule"`

	// startingDeadlineSeconds is how many seconds late a Job may start. A Job that is later than
	// this is skipped. By default, there is no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds,omitempty"`

	// concurrencyPolicy defines what happens when a Job is due while an earlier one still runs:
	// Allow (the default), Forbid or Replace.
	// +optional
	ConcurrencyPolicy ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`

	// suspend prevents new Jobs. Running Jobs continue.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// jobTemplate is the template of the Jobs.
	// +required
	JobTemplate batchv1.JobTemplateSpec `json:"jobTemplate"`

	// successfulJobsHistoryLimit is the number of succeeded Jobs to keep.
	// +optional
	// +kubebuilder:validation:Minimum=0
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`

	// failedJobsHistoryLimit is the number of failed Jobs to keep.
	// +optional
	// +kubebuilder:validation:Minimum=0
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`
}

// CronJobStatus is the observed state of a CronJob.
type CronJobStatus struct {
	// active lists the running Jobs.
	// +optional
	// +listType=atomic
	Active []corev1.ObjectReference `json:"active,omitempty"`

	// lastScheduleTime is the time for which the latest Job was started.
	// +optional
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`

	// observedGeneration is the generation of the spec that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the latest observations of the state: Scheduled, and Accepted if the spec is
	// invalid.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// CronJob runs Jobs on a schedule.
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

	// spec defines which Jobs run, and when.
	// +required
	Spec CronJobSpec `json:"spec"`

	// status is the observed state.
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
