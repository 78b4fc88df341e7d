package operator

import (
	"kelson.dev/operator/events"
	"kelson.dev/operator/manager"
)

// EventSink passes the Events that the operator records to a sink, in addition to the API server:
// to a log, for example, with events.ToLog. The sink gets the events of all clusters, before the
// limits for repeated events, and is called by one goroutine for each cluster.
func EventSink(sink events.Sink) Part {
	return partFunc(func(p *parts) error {
		p.start = append(p.start, func(h *host) error {
			return h.OnCluster(func(c *manager.Cluster) error {
				c.Events().Add(sink)
				return nil
			})
		})
		return nil
	})
}
