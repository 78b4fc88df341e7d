package serve

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
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
	if cfg.Node, err = o.selectNode(); err != nil {
		return err
	}
	cfg.ServiceRange = o.services
	switch o.cloud {
	case "":
	case "external":
		cfg.ExternalCloud = true
	default:
		return fmt.Errorf("--cloud-provider %q: must be external or empty", o.cloud)
	}
	cfg.Controllers, err = o.selectControllers()
	return err
}

// selectControllers returns the controllers that run.
func (o *Options) selectControllers() (controlplane.Controllers, error) {
	selection, err := controlplane.ParseControllers(o.controllers)
	if err != nil {
		return nil, fmt.Errorf("--controllers: %w", err)
	}
	var pods []*net.IPNet
	if o.podRange != "" {
		if pods, err = podRanges(o.podRange); err != nil {
			return nil, fmt.Errorf("--cluster-cidr: %w", err)
		}
		if !o.workloads {
			return nil, errors.New("--cluster-cidr needs --workloads")
		}
	}
	var pool []netip.Prefix
	// With an external cloud, its controller manager provides load balancers.
	if o.pool != "" && o.cloud == "" {
		if pool, err = loadbalancer.ParsePool(o.pool); err != nil {
			return nil, fmt.Errorf("--load-balancer-cidr: %w", err)
		}
	}
	if o.workloads {
		return controlplane.AllControllers{Selection: selection, LoadBalancers: pool, PodRanges: pods}, nil
	}
	return controlplane.ObjectControllers{Selection: selection, LoadBalancers: pool}, nil
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
