package flowcontrol

import (
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/internal/clocks"
)

// SchemaOf returns the name of the FlowSchema of a request.
func (c *Controller) SchemaOf(info *request.RequestInfo, u user.Info) string {
	var t Ticket
	c.Classify(&t, info, u)
	return t.schema.fs.Name
}

// SetClock changes the state as if the machine's clock had been moved by the given time since the
// last division of seats.
func (c *Controller) SetClock(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.adjusted = clocks.Set(c.adjusted, -by)
}
