package adapter

import (
	"context"

	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"kelson.dev/operator/adapter/cluster"
	"kelson.dev/operator/client"
	"kelson.dev/operator/manager"
)

// Client returns a manager's client with controller-runtime's interface: it reads from the
// informers, writes to the server, and its reads see its own writes. With several clusters, reads
// and writes go to the cluster of their context. RESTMapper, IsObjectNamespaced and
// GroupVersionKindFor have no context and answer for the manager's own cluster; see ClientFrom.
func Client(m *manager.Manager) crclient.WithWatch { return Wrap(m.Client()) }

// ClientFrom returns the client of one cluster: the cluster of a context, which in a reconcile is
// that of the reconciled object. All its methods are for this cluster. It is like Client otherwise.
// It returns an error if the cluster is not engaged.
func ClientFrom(ctx context.Context, m *manager.Manager) (crclient.WithWatch, error) {
	c, err := m.ClusterFrom(ctx)
	if err != nil {
		return nil, err
	}
	return Wrap(c.Client()), nil
}

// APIReader returns a reader that bypasses the informers.
func APIReader(m *manager.Manager) crclient.Reader { return Wrap(m.LiveClient()) }

// Wrap adapts any client to controller-runtime's interface.
func Wrap(c client.Client) crclient.WithWatch { return cluster.Wrap(c) }
