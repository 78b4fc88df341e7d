package explore

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// actions make the changes of a plan that are not faults of single steps: those that happen when
// the operator is quiet after an input, and the writes of other clients just before a write of the
// operator, which the injector has prepared. Only the goroutine of the trial calls them.
type actions struct {
	trial   *trial
	users   *users
	setup   *setup
	result  *result
	history *history

	finalized []*unstructured.Unstructured // that have the foreign finalizer
}
