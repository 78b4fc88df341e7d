package adapter

import (
	crclient "sigs.k8s.io/controller-runtime/pkg/client"

	"kelson.dev/operator/adapter/cluster"
	"kelson.dev/operator/client"
	"kelson.dev/operator/manager"
)

// Client returns a manager's client with controller-runtime's interface: it reads from the
// informers, writes to the server, and its reads see its own writes.
func Client(m *manager.Manager) crclient.WithWatch { return Wrap(m.Client()) }

// APIReader returns a reader that bypasses the informers.
func APIReader(m *manager.Manager) crclient.Reader { return Wrap(m.LiveClient()) }

// Wrap adapts any client to controller-runtime's interface.
func Wrap(c client.Client) crclient.WithWatch { return cluster.Wrap(c) }
