package serve

import (
	"fmt"
	"io"
	"strings"

	"kelson.dev/kubernetes/controllers/loadbalancer"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/scheduler"
)

// cluster configures what runs around the API server. It writes warnings to errOut.
func (o *Options) cluster(cfg *controlplane.Config, errOut io.Writer) (err error) {
	if o.scheduler != "" {
		if cfg.Scheduler, err = scheduler.Load(o.scheduler); err != nil {
			return fmt.Errorf("--scheduler-config: %w", err)
		}
		if ignored := cfg.Scheduler.Ignored(); len(ignored) > 0 {
			fmt.Fprintf(errOut, "warning: %s: %s has no effect: the scheduler is part of this process\n", o.scheduler, strings.Join(ignored, ", "))
		}
	}
	if cfg.Controllers, err = controlplane.ParseControllers(o.controllers); err != nil {
		return fmt.Errorf("--controllers: %w", err)
	}
	switch o.cloud {
	case "":
	case "external":
		cfg.ExternalCloud = true
		return nil // the manager provides load balancers
	default:
		return fmt.Errorf("--cloud-provider %q: must be external or empty", o.cloud)
	}
	if o.pool != "" {
		if cfg.LoadBalancers, err = loadbalancer.ParsePool(o.pool); err != nil {
			return fmt.Errorf("--load-balancer-cidr: %w", err)
		}
	}
	return nil
}
