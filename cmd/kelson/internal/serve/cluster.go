package serve

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	utilnet "k8s.io/utils/net"

	"kelson.dev/kubernetes/controllers/loadbalancer"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/kubernetes/scheduler"
)

// cluster configures the controllers, the scheduler and the nodes. It writes warnings to errOut.
func (o *Options) cluster(cfg *controlplane.Config, errOut io.Writer) (err error) {
	if o.scheduler != "" {
		if cfg.Scheduler, err = scheduler.Load(o.scheduler); err != nil {
			return fmt.Errorf("--scheduler-config: %w", err)
		}
		if ignored := cfg.Scheduler.Ignored(); len(ignored) > 0 {
			fmt.Fprintf(errOut, "warning: %s: %s has no effect: the scheduler is part of this process\n", o.scheduler,
				strings.Join(ignored, ", "))
		}
	}
	if cfg.Controllers, err = controlplane.ParseControllers(o.controllers); err != nil {
		return fmt.Errorf("--controllers: %w", err)
	}
	if cfg.Nodes, err = o.simulatedNodes(); err != nil {
		return err
	}
	if cfg.Stages, err = o.loadStages(); err != nil {
		return err
	}
	cfg.ServiceRange = o.services
	if o.podRange != "" {
		if cfg.PodRanges, err = podRanges(o.podRange); err != nil {
			return fmt.Errorf("--cluster-cidr: %w", err)
		}
		if !o.workloads {
			return errors.New("--cluster-cidr needs --workloads")
		}
	}
	switch o.cloud {
	case "":
	case "external":
		cfg.ExternalCloud = true
		return nil // the cloud controller manager provides load balancers
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

// podRanges parses a range of pod addresses, or two of different IP families separated by a comma.
func podRanges(text string) ([]*net.IPNet, error) {
	ranges, err := utilnet.ParseCIDRs(strings.Split(text, ","))
	if err != nil {
		return nil, err
	}
	if dual, err := utilnet.IsDualStackCIDRs(ranges); err != nil || len(ranges) > 2 || len(ranges) == 2 && !dual {
		return nil, fmt.Errorf("%q: want one CIDR, or two of different IP families", text)
	}
	return ranges, nil
}
