package stage

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// APIVersion and Kind identify Stages. Resource is their name in a store.
const (
	Group      = "kwok.x-k8s.io"
	APIVersion = Group + "/v1alpha1"
	Kind       = "Stage"
	Resource   = "stages." + Group
)

// Stage is one transition between states of objects of one kind.
type Stage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status,omitempty"`
}

// Status is not used.
type Status struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Spec describes a Stage.
type Spec struct {
	ResourceRef ResourceRef `json:"resourceRef"`
	// Selector selects the objects; nil selects none.
	Selector *Selector `json:"selector,omitempty"`
	// Weight is the share of this Stage among those that match an object. If all weights are 0,
	// the shares are equal.
	Weight     int             `json:"weight,omitempty"`
	WeightFrom *ExpressionFrom `json:"weightFrom,omitempty"`
	Delay      *Delay          `json:"delay,omitempty"`
	// Next is the older form of Steps, and ignored if Steps are given.
	Next *Next `json:"next,omitempty"`
	// ImmediateNextStage looks for the next Stage without waiting for the event of this one's
	// change.
	ImmediateNextStage *bool  `json:"immediateNextStage,omitempty"`
	Steps              []Step `json:"steps,omitempty"`
}

// ResourceRef names a kind. APIGroup is a group and version, such as apps/v1; "" means v1.
type ResourceRef struct {
	APIGroup string `json:"apiGroup,omitempty"`
	Kind     string `json:"kind"`
}

// Selector selects the objects that fulfill all of its conditions.
type Selector struct {
	MatchLabels      map[string]string `json:"matchLabels,omitempty"`
	MatchAnnotations map[string]string `json:"matchAnnotations,omitempty"`
	MatchExpressions []MatchExpression `json:"matchExpressions,omitempty"`
}

// MatchExpression is a condition: CEL, JQ, or the older form of JQ.
type MatchExpression struct {
	CEL *CEL         `json:"cel,omitempty"`
	JQ  *Requirement `json:"jq,omitempty"`

	Key      string   `json:"key,omitempty"`
	Operator string   `json:"operator,omitempty"`
	Values   []string `json:"values,omitempty"`
}

// Requirement is a condition on the results of a jq expression.
type Requirement struct {
	Key string `json:"key,omitempty"`
	// Operator is In, NotIn, Exists or DoesNotExist.
	Operator string   `json:"operator,omitempty"`
	Values   []string `json:"values,omitempty"`
}

// CEL is an expression in CEL; the object is self.
type CEL struct {
	Expression string `json:"expression,omitempty"`
}

// JQ is an expression of jq.
type JQ struct {
	Expression string `json:"expression,omitempty"`
}

// ExpressionFrom computes a value from the object: by CEL, JQ, or the older form of JQ.
type ExpressionFrom struct {
	CEL            *CEL   `json:"cel,omitempty"`
	JQ             *JQ    `json:"jq,omitempty"`
	ExpressionFrom string `json:"expressionFrom,omitempty"`
}

// Delay is how long objects stay in their state. With a jitter, it is a random duration between the
// two. Expressions give durations such as "5s", or times at which the delay ends.
type Delay struct {
	DurationMilliseconds       *int64          `json:"durationMilliseconds,omitempty"`
	DurationFrom               *ExpressionFrom `json:"durationFrom,omitempty"`
	JitterDurationMilliseconds *int64          `json:"jitterDurationMilliseconds,omitempty"`
	JitterDurationFrom         *ExpressionFrom `json:"jitterDurationFrom,omitempty"`
}

// Next has the effects of the stage, in this order: event, finalizers, patches or
// statusTemplate, delete.
type Next struct {
	Event             *Event         `json:"event,omitempty"`
	Finalizers        *Finalizers    `json:"finalizers,omitempty"`
	Delete            bool           `json:"delete,omitempty"`
	Patches           []Patch        `json:"patches,omitempty"`
	StatusTemplate    string         `json:"statusTemplate,omitempty"`
	StatusSubresource *string        `json:"statusSubresource,omitempty"`
	StatusPatchAs     *Impersonation `json:"statusPatchAs,omitempty"`
}

// Step is one step. Its fields take effect in the order event, finalizers, delete or patch, apply.
type Step struct {
	Patch      *Patch      `json:"patch,omitempty"`
	Event      *Event      `json:"event,omitempty"`
	Finalizers *Finalizers `json:"finalizers,omitempty"`
	Delete     bool        `json:"delete,omitempty"`
	Apply      *Apply      `json:"apply,omitempty"`
}

// Event is an Event to record about the object.
type Event struct {
	Type    string `json:"type,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Finalizers changes the object's finalizers.
type Finalizers struct {
	Add    []Finalizer `json:"add,omitempty"`
	Remove []Finalizer `json:"remove,omitempty"`
	Empty  bool        `json:"empty,omitempty"`
}

// Finalizer is the name of a finalizer.
type Finalizer struct {
	Value string `json:"value,omitempty"`
}

// Patch changes the object by a template whose result is the patch of the field Root, or of the
// whole object.
type Patch struct {
	Subresource string `json:"subresource,omitempty"`
	Root        string `json:"root,omitempty"`
	Template    string `json:"template,omitempty"`
	// Type is json, merge or strategic; the default is strategic for Pods and Nodes, and merge for
	// other kinds.
	Type          *string        `json:"type,omitempty"`
	Impersonation *Impersonation `json:"impersonation,omitempty"`
}

// Apply creates or changes another object, which a template describes.
type Apply struct {
	Template    string `json:"template,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	// Type is apply (the default), merge or strategic.
	Type          *string        `json:"type,omitempty"`
	Impersonation *Impersonation `json:"impersonation,omitempty"`
}

// Impersonation names the user that a write is made as.
type Impersonation struct {
	Username string `json:"username"`
}

// steps returns the steps of a Stage in either form.
func (s *Spec) steps() []Step {
	if len(s.Steps) > 0 || s.Next == nil {
		return s.Steps
	}
	var steps []Step
	if s.Next.Event != nil {
		steps = append(steps, Step{Event: s.Next.Event})
	}
	if s.Next.Finalizers != nil {
		steps = append(steps, Step{Finalizers: s.Next.Finalizers})
	}
	for i := range s.Next.Patches {
		steps = append(steps, Step{Patch: &s.Next.Patches[i]})
	}
	if len(s.Next.Patches) == 0 && s.Next.StatusTemplate != "" {
		patch := &Patch{Subresource: "status", Root: "status", Template: s.Next.StatusTemplate,
			Impersonation: s.Next.StatusPatchAs}
		if s.Next.StatusSubresource != nil {
			patch.Subresource = *s.Next.StatusSubresource
		}
		steps = append(steps, Step{Patch: patch})
	}
	if s.Next.Delete {
		steps = append(steps, Step{Delete: true})
	}
	return steps
}
