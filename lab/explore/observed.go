package explore

import (
	"net/http"
	"slices"
	"strings"
	"sync"

	"kelson.dev/operator/client"
)

// observed holds what goroutines of the operator report about a run. The lock guards all fields.
type observed struct {
	mu         sync.Mutex
	forbidden  []string            // requests that RBAC has refused (O12)
	panics     []string            // of reconcilers (O3)
	errors     map[string]*failing // of reconcilers, since the last change
	leases     map[client.Key]bool // that the operator has written
	ownObjects map[string]bool     // the objects that the operator created or deleted itself
}

func newObserved() *observed {
	return &observed{leases: map[client.Key]bool{}, errors: map[string]*failing{}, ownObjects: map[string]bool{}}
}

// answered records the response to a request.
func (o *observed) answered(s *step, code int, body []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case code == http.StatusForbidden && strings.Contains(string(body), "cannot "+infoVerb(s.call.verb)):
		if !slices.Contains(o.forbidden, s.label) {
			o.forbidden = append(o.forbidden, s.label)
		}
	case code < 300 && s.call.resource == "leases.coordination.k8s.io" && s.call.write:
		namespace, name, _ := strings.Cut(s.call.object, "/")
		o.leases[client.Key{Namespace: namespace, Name: name}] = true
	case code < 300 && s.point != (Point{}) &&
		(s.call.verb == "create" || s.call.verb == "apply" || s.call.verb == "delete"):
		o.ownObjects[s.point.Resource+" "+s.point.Object] = true
	}
}
