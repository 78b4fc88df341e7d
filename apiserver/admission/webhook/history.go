package webhook

import (
	"maps"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
)

// history is what the second round must know of the first.
type history struct {
	// willing were called, would be called again, and nothing was changed since.
	willing map[string]bool
	// due were called before something was changed.
	due map[string]bool
	// output is the object as the webhooks left it.
	output runtime.Object
}

// invoked notes a webhook that would be called again.
func (h *history) invoked(uid string) {
	if h.willing == nil {
		h.willing = map[string]bool{}
	}
	h.willing[uid] = true
}

// changed makes all due that were called so far.
func (h *history) changed() {
	if h.due == nil {
		h.due = map[string]bool{}
	}
	maps.Copy(h.due, h.willing)
	clear(h.willing)
}

// remember keeps the object if anybody would be called again.
func (h *history) remember(obj runtime.Object) {
	if h.output = nil; obj != nil && len(h.willing) > 0 {
		h.output = obj.DeepCopyObject()
	}
}

// compare looks whether other plugins changed the object since.
func (h *history) compare(obj runtime.Object) {
	if len(h.willing) > 0 && !apiequality.Semantic.DeepEqual(h.output, obj) {
		h.changed()
	}
}
