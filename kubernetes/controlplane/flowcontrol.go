package controlplane

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"kelson.dev/apiserver/flowcontrol"
)

// What kube-apiserver serves at once by default.
const (
	defaultInFlight         = 400
	defaultMutatingInFlight = 200
)

// newFlowControl makes priority and fairness; nil if there is none.
func (p *ControlPlane) newFlowControl(cfg Config, metrics *prometheus.Registry) (*flowcontrol.Controller, error) {
	if cfg.Limits.NoPriorityAndFairness {
		return nil, nil
	}
	seats := seatsOf(cfg.Limits.InFlight, defaultInFlight) + seatsOf(cfg.Limits.MutatingInFlight, defaultMutatingInFlight)
	if seats == 0 {
		return nil, fmt.Errorf("priority and fairness needs a number of requests in flight: InFlight=%d, MutatingInFlight=%d",
			cfg.Limits.InFlight, cfg.Limits.MutatingInFlight)
	}
	flows := flowcontrol.New(flowcontrol.Config{Store: p.store, Seats: seats, REST: p.RESTConfig})
	return flows, metrics.Register(flows)
}

func seatsOf(limit, otherwise int) int {
	if limit == 0 {
		return otherwise
	}
	return max(limit, 0)
}
