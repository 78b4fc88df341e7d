package flowcontrol

import (
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/flowcontrol/debug"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
)

// Ticket is the permission of one request to execute. The zero value is ready for
// [Controller.Begin].
type Ticket struct {
	schema *schema
	level  *level
	work   fcrequest.WorkEstimate

	info    *request.RequestInfo
	user    string
	flow    string
	arrived time.Time // when a request arrived that went through the queues
	started time.Time // when it began to execute; if it did not wait, also when it arrived

	// released is closed to end the execution of a request that went through the queues. finished
	// is closed when the queues have processed the end. Both are nil for other requests.
	released, finished chan struct{}
	done               atomic.Bool
	prev, next         *Ticket // neighbors in the ring of requests that execute directly
}

// Release returns the seats. Only the first call has an effect. Releasing a rejected or unused
// ticket does nothing.
func (t *Ticket) Release() {
	if t.level == nil || t.done.Swap(true) {
		return
	}
	t.level.finish(t)
}

// Signal implements Kubernetes' InitializationSignal: a watch needs its seats only until it has
// sent its initial events.
func (t *Ticket) Signal() { t.Release() }

// Wait implements Kubernetes' InitializationSignal. It is not called.
func (t *Ticket) Wait() {}

// Headers returns the values of the response headers with the UIDs of the FlowSchema and the
// priority level. They are shared: the caller must not change them.
func (t *Ticket) Headers() (flowSchema, priorityLevel []string) {
	if t.schema == nil {
		return noUID, noUID
	}
	return t.schema.uid, t.schema.levelUID
}

// noUID is the UID of an object that does not exist.
var noUID = []string{""}

func (t *Ticket) dump() debug.RequestDump {
	return debug.RequestDump{
		MatchedFlowSchema: t.schema.fs.Name, FlowDistinguisher: t.flow, ArriveTime: t.started, StartTime: t.started,
		WorkEstimate: t.work, UserName: t.user, RequestInfo: *t.info,
	}
}
