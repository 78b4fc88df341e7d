package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AtSpec says what to run, and when.
type AtSpec struct {
	// schedule is the time at which the command runs, in UTC, as RFC 3339 has it:
	// 2027-07-03T02:00:00Z. A time that has passed is due at once.
	// +required
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$`
	Schedule string `json:"schedule"`

	// command is the shell command to run. It may be anything that sh understands: quotes, pipes,
	// variables, several lines.
	// +required
	// +kubebuilder:validation:MinLength=1
	Command string `json:"command"`
}

// AtPhase tells how far an At has come.
// +kubebuilder:validation:Enum=PENDING;RUNNING;DONE;FAILED
type AtPhase string

const (
	// Pending waits for its time.
	Pending AtPhase = "PENDING"
	// Running has its pod; the command is starting or runs.
	Running AtPhase = "RUNNING"
	// Done ran its command, which ended with exit status 0. This is final.
	Done AtPhase = "DONE"
	// Failed ran its command, which ended otherwise, or lost the pod on the way. This is final: the
	// command may have had effects, so it is not run again.
	Failed AtPhase = "FAILED"
)

// ConditionComplete is the type of the condition that says whether the command has ended: True with
// reason Succeeded, CommandFailed or PodLost, False with reason Waiting, Started or Running until
// then.
const ConditionComplete = "Complete"

// AtStatus is what became of an At.
type AtStatus struct {
	// phase tells how far it has come: PENDING, RUNNING, then DONE or FAILED.
	// +optional
	Phase AtPhase `json:"phase,omitempty"`

	// pod is the name of the pod that runs the command.
	// +optional
	Pod string `json:"pod,omitempty"`

	// startTime is when the pod was made.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the command was seen to have ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// conditions are Complete, which says whether the command has ended and how, and, if the spec
	// cannot be followed, Accepted.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// At runs a command at a time.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=ats,singular=at
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Command",type=string,JSONPath=`.spec.command`,priority=1
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type At struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what to run, and when.
	// +required
	Spec AtSpec `json:"spec"`

	// status is what became of it.
	// +optional
	Status AtStatus `json:"status,omitempty"`
}

// AtList is a list of Ats.
// +kubebuilder:object:root=true
type AtList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []At `json:"items"`
}
