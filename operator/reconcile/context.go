package reconcile

import (
	"context"
	"log/slog"

	"kelson.dev/operator/client"
)

type objectKey struct{}
type logKey struct{}
type clusterKey struct{}
type requestKey struct{}

// WithCluster returns a context in which a manager's client reads from and writes to the named
// cluster. In a reconcile, the context has the cluster of the Request.
func WithCluster(ctx context.Context, name string) context.Context {
	if Cluster(ctx) == name {
		return ctx
	}
	return context.WithValue(ctx, clusterKey{}, name)
}

// Cluster returns the cluster of a context; empty for the manager's own.
func Cluster(ctx context.Context) string {
	name, _ := ctx.Value(clusterKey{}).(string)
	return name
}

// WithRequest returns a context with the request that is being reconciled. Controllers pass such a
// context to reconcilers.
func WithRequest(ctx context.Context, req Request) context.Context {
	return context.WithValue(ctx, requestKey{}, req)
}

// RequestFrom returns the request that is being reconciled; ok is false outside of a reconcile.
func RequestFrom(ctx context.Context) (req Request, ok bool) {
	req, ok = ctx.Value(requestKey{}).(Request)
	return req, ok
}

// WithObject returns a context with the object that is being reconciled. Typed reconcilers get such
// a context.
func WithObject(ctx context.Context, obj client.Object) context.Context {
	return context.WithValue(ctx, objectKey{}, &current{object: obj})
}

// current is the object that is being reconciled.
type current struct {
	object client.Object // as it was read
	status statusSaver   // nil if the reconciler is not Typed
}

func currentIn(ctx context.Context) current {
	if c, ok := ctx.Value(objectKey{}).(*current); ok {
		return *c
	}
	return current{}
}

// Object returns the object that is being reconciled, as it was read, or nil. Callers must not
// modify it.
func Object(ctx context.Context) client.Object {
	return currentIn(ctx).object
}

// WithLog returns a context with a logger.
func WithLog(ctx context.Context, log *slog.Logger) context.Context {
	return context.WithValue(ctx, logKey{}, log)
}

// Log returns the logger of the reconcile, which adds the controller and the object to each record;
// outside of a reconcile, it returns slog.Default().
func Log(ctx context.Context) *slog.Logger {
	if log, ok := ctx.Value(logKey{}).(*slog.Logger); ok {
		return log
	}
	return slog.Default()
}
