package reconcile

import (
	"context"
	"log/slog"

	"kelson.dev/operator/client"
)

type objectKey struct{}
type logKey struct{}
type clusterKey struct{}

// WithCluster returns a context whose reads and writes, through a manager's client, go to a cluster. It is that of the Request in a
// reconcile.
func WithCluster(ctx context.Context, name string) context.Context {
	if Cluster(ctx) == name {
		return ctx
	}
	return context.WithValue(ctx, clusterKey{}, name)
}

// Cluster is the cluster of the context; empty is the manager's own.
func Cluster(ctx context.Context) string {
	name, _ := ctx.Value(clusterKey{}).(string)
	return name
}

// WithObject returns a context that knows which object is being reconciled. Typed reconcilers are given one.
func WithObject(ctx context.Context, obj client.Object) context.Context {
	return context.WithValue(ctx, objectKey{}, obj)
}

// Object is the object that is being reconciled, as it was read, or nil. It must not be changed.
func Object(ctx context.Context) client.Object {
	obj, _ := ctx.Value(objectKey{}).(client.Object)
	return obj
}

// WithLog returns a context with a logger.
func WithLog(ctx context.Context, log *slog.Logger) context.Context {
	return context.WithValue(ctx, logKey{}, log)
}

// Log is the logger of the reconcile, which names its controller and object; slog.Default() outside of one.
func Log(ctx context.Context) *slog.Logger {
	if log, ok := ctx.Value(logKey{}).(*slog.Logger); ok {
		return log
	}
	return slog.Default()
}
