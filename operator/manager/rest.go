package manager

import (
	"errors"
	"net/http"

	"k8s.io/client-go/rest"
)

// REST returns a copy of the configuration with which the cluster was added, for what the client
// does not do: exec, attach and port-forward, or clients of other libraries. It is nil if the
// manager was made with Config.Client and without Config.REST.
func (c *Cluster) REST() *rest.Config {
	if c.config == nil {
		return nil
	}
	return rest.CopyConfig(c.config)
}

// HTTPClient returns a client for requests to the cluster's server, with the credentials of REST:
// for logs, metrics, and other paths that are not objects. Its requests are counted in the
// manager's metrics. All calls return the same client.
func (c *Cluster) HTTPClient() (*http.Client, error) { return c.http() }

func (m *Manager) newHTTPClient(c *Cluster) (*http.Client, error) {
	if c.config == nil {
		return nil, errors.New("HTTP client: the manager was made without Config.REST")
	}
	h, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return nil, err
	}
	counting := *h // HTTPClientFor can return http.DefaultClient
	next := h.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	counting.Transport = m.countRequests(c, next)
	return &counting, nil
}
