package flowcontrol

import "context"

// Waiter is a request that can release its seats while it waits for another server.
type Waiter interface {
	// Wait marks the request as waiting for another server until end is called. Calls may overlap.
	Wait() (end func())
}

type waiterKey struct{}

// WaiterKey is the key under which the context of a request has its [Waiter].
var WaiterKey any = waiterKey{}

// Wait marks the request of a context as waiting for another server, such as a webhook, until end
// is called. A request that waits for a slow server then does not take seats from requests of other
// users. In a context without a request, Wait does nothing.
func Wait(ctx context.Context) (end func()) {
	if w, ok := ctx.Value(WaiterKey).(Waiter); ok {
		return w.Wait()
	}
	return func() {}
}
