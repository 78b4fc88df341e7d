package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AtSpec defines what to run, and when.
type AtSpec struct {
	// schedule is the time at which the command runs, in UTC, as in RFC 3339: 2027-07-03T02:00:00Z.
	// If the time has passed, the command runs at once.
	// +required
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?Z$`
	Schedule string `json:"schedule"`

	// command is the shell command to run: anything that sh accepts, such as quotes, pipes,
	// variables and several lines.
	// +required
	// +kubebuilder:validation:MinLength=1
	Command string `json:"command"`
}

// AtPhase is the phase of an At.
// +kubebuilder:validation:Enum=PENDING;RUNNING;DONE;FAILED
type AtPhase string

const (
	// Pending: the At is not due yet.
	Pending AtPhase = "PENDING"
	// Running: the pod of the command exists, and may run.
	Running AtPhase = "RUNNING"
	// Done: the command ended with exit status 0. This is final.
	Done AtPhase = "DONE"
	// Failed: the command ended with another exit status, or its pod was lost. This is final: the
	// command may have had effects, so it does not run again.
	Failed AtPhase = "FAILED"
)

// ConditionComplete is the type of the condition that reports whether the command has ended: True
// with reason Succeeded, CommandFailed or PodLost, False with reason Waiting, Started or Running.
const ConditionComplete = "Complete"

// AtStatus is the observed state of an At.
type AtStatus struct {
	// phase is PENDING, RUNNING, DONE or FAILED.
	// +optional
	Phase AtPhase `json:"phase,omitempty"`

	// pod is the name of the pod that runs the command.
	// +optional
	Pod string `json:"pod,omitempty"`

	// podUID is the uid of this pod. No other pod runs the command.
	// +optional
	PodUID types.UID `json:"podUID,omitempty"`

	// startTime is when the command was started in the pod.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the operator observed the end of the command.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// conditions are Complete, which reports whether and how the command has ended, and Accepted if
	// the spec is invalid.
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

	// spec defines what to run, and when.
	// +required
	Spec AtSpec `json:"spec"`

	// status is the observed state.
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
