package flowcontrol

import "context"

// Waiter is a request that can release its seats while it waits for another server.
type Waiter interface {
	// Wait says that the request waits for another server until end is called. Calls may overlap.
	Wait() (end func())
}

type waiterKey struct{}

// WaiterKey is the key under which the context of a request has its [Waiter].
var WaiterKey any = waiterKey{}

// Wait says that the request of a context waits for another server, such as a webhook, until end is
// called. A server that hangs then occupies no seats that other users' requests need. In a context
// without a request it does nothing.
func Wait(ctx context.Context) (end func()) {
	if w, ok := ctx.Value(WaiterKey).(Waiter); ok {
		return w.Wait()
	}
	return func() {}
}
