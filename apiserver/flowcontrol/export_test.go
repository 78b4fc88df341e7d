package flowcontrol

import (
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// SchemaOf returns the name of the FlowSchema of a request.
func (c *Controller) SchemaOf(info *request.RequestInfo, u user.Info) string {
	var t Ticket
	c.Classify(&t, info, u)
	return t.schema.fs.Name
}
