package manager

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"

	"kelson.dev/operator/client"
)

// liveReads is a client whose Get and List read from the server. It writes with the client that it
// wraps, so writes are recorded in the trace, and reads from the informers see them.
type liveReads struct{ client.Client }

func (l liveReads) Get(ctx context.Context, key client.Key, into client.Object, opts ...client.GetOption) error {
	return l.Client.Get(ctx, key, into, append(opts[:len(opts):len(opts)], client.Live)...)
}

func (l liveReads) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	return l.Client.List(ctx, into, append(opts[:len(opts):len(opts)], client.Live)...)
}

// MapperIn returns the mapper of the wrapped client.
func (l liveReads) MapperIn(ctx context.Context) (meta.RESTMapper, error) {
	return client.MapperIn(ctx, l.Client)
}
