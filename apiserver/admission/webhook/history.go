package webhook

import (
	"maps"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
)

// history records the results of the first round of mutating webhooks for the second round.
type history struct {
	// reinvocable are the called webhooks that allow reinvocation and after which the object did
	// not change.
	reinvocable map[string]bool
	// due are the called webhooks that allow reinvocation and after which the object changed.
	due map[string]bool
	// output is the object after the last webhook.
	output runtime.Object
}

// invoked records the call of a webhook that allows reinvocation.
func (h *history) invoked(uid string) {
	if h.reinvocable == nil {
		h.reinvocable = map[string]bool{}
	}
	h.reinvocable[uid] = true
}

// changed makes all recorded webhooks due.
func (h *history) changed() {
	if h.due == nil {
		h.due = map[string]bool{}
	}
	maps.Copy(h.due, h.reinvocable)
	clear(h.reinvocable)
}

// remember copies the object if any recorded webhook is reinvocable.
func (h *history) remember(obj runtime.Object) {
	if h.output = nil; obj != nil && len(h.reinvocable) > 0 {
		h.output = obj.DeepCopyObject()
	}
}

// compare makes the reinvocable webhooks due if other plugins changed the object.
func (h *history) compare(obj runtime.Object) {
	if len(h.reinvocable) > 0 && !apiequality.Semantic.DeepEqual(h.output, obj) {
		h.changed()
	}
}
