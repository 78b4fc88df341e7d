package controlplane

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"kelson.dev/apiserver/flowcontrol"
)

// kube-apiserver's defaults.
const (
	defaultInFlight         = 400
	defaultMutatingInFlight = 200
)

// newFlowControl creates the priority and fairness controller. It returns nil if priority and
// fairness is off.
func (p *ControlPlane) newFlowControl(cfg Config, metrics *prometheus.Registry) (*flowcontrol.Controller, error) {
	if cfg.Limits.NoPriorityAndFairness {
		return nil, nil
	}
	seats := seatsOf(cfg.Limits.InFlight, defaultInFlight) + seatsOf(cfg.Limits.MutatingInFlight,
		defaultMutatingInFlight)
	if seats == 0 {
		return nil, fmt.Errorf("priority and fairness needs a positive limit of requests in flight: InFlight=%d, MutatingInFlight=%d",
			cfg.Limits.InFlight, cfg.Limits.MutatingInFlight)
	}
	flows := flowcontrol.New(flowcontrol.Config{Store: p.store, Seats: seats, REST: p.serverConfig})
	return flows, metrics.Register(flows)
}

// seatsOf returns the seats of a limit of Limits, where 0 means the default.
func seatsOf(limit, otherwise int) int {
	if limit == 0 {
		return otherwise
	}
	return max(limit, 0)
}
