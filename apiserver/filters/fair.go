package filters

import (
	"errors"
	"net/http"
	"strconv"

	"k8s.io/apiserver/pkg/endpoints/request"
	upstream "k8s.io/apiserver/pkg/util/flowcontrol"

	"kelson.dev/apiserver/flowcontrol"
)

// The response headers that name the FlowSchema and the priority level of a request, in net/http's
// canonical form.
const (
	flowSchemaHeader    = "X-Kubernetes-Pf-Flowschema-Uid"
	priorityLevelHeader = "X-Kubernetes-Pf-Prioritylevel-Uid"
)

// flowControlled delays a short request until flow control admits it.
func (c *Chain) flowControlled(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		call := callOf(req)
		if !c.begin(w, req, call) {
			return
		}
		kind := c.kindOf(call.info)
		kind.taken.Add(1)
		c.seated(w, req, kind, next)
	})
}

// watching delays a watch until flow control admits it. The watch returns its seats when it has
// sent its initial events, through Kubernetes' initialization signal.
func (c *Chain) watching(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		call := callOf(req)
		if !c.begin(w, req, call) {
			return
		}
		call.watching = true
		defer call.ticket.Release()
		defer c.cfg.FlowControl.RegisterWatch(req)()
		next.ServeHTTP(w, req.WithContext(upstream.WithInitializationSignal(req.Context(), &call.ticket)))
	})
}

// begin waits until a request may execute. If flow control rejects it, begin sends the response and
// returns false.
func (c *Chain) begin(w http.ResponseWriter, req *http.Request, call *call) bool {
	u, _ := request.UserFrom(req.Context())
	err := c.cfg.FlowControl.Begin(&call.ticket, req, call.info, u)
	call.setFlowHeaders(w)
	var rejected *flowcontrol.RejectedError
	if errors.As(err, &rejected) {
		refuseAfter(w, strconv.FormatInt(rejected.RetryAfter, 10))
		return false
	}
	return true
}

// classify names the FlowSchema and the priority level of a request that takes no seat.
func (c *Chain) classify(w http.ResponseWriter, req *http.Request) {
	if u, ok := request.UserFrom(req.Context()); ok && c.cfg.FlowControl != nil {
		call := callOf(req)
		c.cfg.FlowControl.Classify(&call.ticket, call.info, u)
		call.setFlowHeaders(w)
	}
}

// setFlowHeaders sets the headers that name the FlowSchema and the priority level.
func (c *call) setFlowHeaders(w http.ResponseWriter) {
	schema, level := c.ticket.Headers()
	header := w.Header()
	header[flowSchemaHeader], header[priorityLevelHeader] = schema, level
}
