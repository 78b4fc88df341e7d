package workloads

import (
	"context"
	"net"
	"time"

	kubecontroller "k8s.io/kubernetes/pkg/controller"
	"k8s.io/kubernetes/pkg/controller/nodeipam"
	"k8s.io/kubernetes/pkg/controller/nodeipam/ipam"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
	"k8s.io/kubernetes/pkg/controller/tainteviction"
	"k8s.io/kubernetes/pkg/controller/volume/ephemeral"
	"k8s.io/kubernetes/pkg/controller/volume/persistentvolume"
)

// kube-controller-manager's defaults.
const (
	binderResync       = 15 * time.Second
	nodeMonitorPeriod  = 5 * time.Second
	nodeStartupGrace   = time.Minute
	nodeMonitorGrace   = 50 * time.Second
	evictionsPerSecond = 0.1
	fewerEvictions     = 0.01 // per second, in zones with many unhealthy nodes
	largeCluster       = 50
	unhealthyZone      = 0.55
	nodeRangeSize      = 24
	nodeRangeSizeIPv6  = 64
	taintEvictionName  = "taint-eviction-controller"
)

// volumeBinder returns the controller that binds claims to volumes and reclaims volumes. It has no
// in-tree plugins: a provisioner, such as the simulated one, creates and deletes volumes.
func volumeBinder(ctx context.Context, read *access) (controller, error) {
	binder, err := persistentvolume.NewController(ctx, persistentvolume.ControllerParameters{
		KubeClient: read.client, SyncPeriod: binderResync, EnableDynamicProvisioning: true,
		VolumeInformer: read.volumes(), ClaimInformer: read.claims(), ClassInformer: read.storageClasses(),
		PodInformer: read.pods(), NodeInformer: read.nodes(),
	})
	if err != nil {
		return nil, err
	}
	return single(binder.Run), nil
}

// ephemeralVolumes returns the controller that creates the claims of pods' ephemeral volumes.
func ephemeralVolumes(ctx context.Context, read *access) (controller, error) {
	return ephemeral.NewController(ctx, read.client, read.pods(), read.claims())
}

// nodeLifecycle returns the controller that watches the heartbeats of nodes. It starts with the
// first Lease of a node: on a control plane whose nodes send no heartbeats, it would mark all of
// them unreachable. It polls ten times a second.
func nodeLifecycle(ctx context.Context, read *access) (controller, error) {
	nodes, err := nodelifecycle.NewNodeLifecycleController(ctx, read.nodeLeases(), read.pods(), read.nodes(),
		read.daemonSets(), read.client,
		nodeMonitorPeriod, nodeStartupGrace, nodeMonitorGrace, evictionsPerSecond, fewerEvictions, largeCluster,
		unhealthyZone)
	if err != nil {
		return nil, err
	}
	return single(nodes.Run), nil
}

// nodeRanges returns the controller that divides ranges of pod addresses among nodes, in parts of
// kube-controller-manager's default sizes.
func nodeRanges(ranges []*net.IPNet) func(context.Context, *access) (controller, error) {
	return func(ctx context.Context, read *access) (controller, error) {
		var sizes []int
		for _, r := range ranges {
			size := nodeRangeSize
			if r.IP.To4() == nil {
				size = nodeRangeSizeIPv6
			}
			sizes = append(sizes, size)
		}
		c, err := nodeipam.NewNodeIpamController(ctx, read.nodes(), nil, read.client, ranges, nil, nil, sizes,
			ipam.RangeAllocatorType)
		if err != nil {
			return nil, err
		}
		return single(c.Run), nil
	}
}

// taintEviction returns the controller that evicts pods from nodes with NoExecute taints.
func taintEviction(ctx context.Context, read *access) (controller, error) {
	// The controller reads this index and does not add it: in kube-controller-manager, the
	// node-lifecycle-controller does.
	if err := kubecontroller.AddPodNodeNameIndexer(read.pods().Informer()); err != nil {
		return nil, err
	}
	evictions, err := tainteviction.New(ctx, read.client, read.pods(), read.nodes(), taintEvictionName)
	if err != nil {
		return nil, err
	}
	return single(evictions.Run), nil
}
