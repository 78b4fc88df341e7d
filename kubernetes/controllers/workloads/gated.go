package workloads

import (
	"context"
	"sync"
	"time"

	genericfeatures "k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	devices "k8s.io/client-go/informers/resource/v1"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/devicetainteviction"
	"k8s.io/kubernetes/pkg/controller/resourcepoolstatusrequest"
	"k8s.io/kubernetes/pkg/controller/scheduling/podgroupprotection"
	"k8s.io/kubernetes/pkg/controlplane/controller/leaderelection"
	"k8s.io/kubernetes/pkg/features"
)

// Kubernetes' defaults.
const (
	deviceTaintEvictionName = "device-taint-eviction-controller"
	candidateCollection     = 30 * time.Minute
)

// gated returns the groups of controllers that run only if feature gates are on.
func gated() []group {
	var all []group
	if enabled(features.DRADeviceTaints) {
		evictions := []member{{deviceTaintEvictionName, deviceTaintEvictionName, deviceTaintEviction}}
		all = append(all, group{kinds: []string{"resourceslices.resource.k8s.io"}, needs: containing(`"NoExecute"`),
			members: evictions})
		if enabled(features.DRADeviceTaintRules) {
			all[0].kinds = append(all[0].kinds, "devicetaintrules.resource.k8s.io")
		}
	}
	if enabled(features.DRAResourcePoolStatus) {
		all = append(all, group{kinds: []string{"resourcepoolstatusrequests.resource.k8s.io"}, members: []member{
			{"resourcepoolstatusrequest-controller", "resourcepoolstatusrequest-controller", resourcePoolStatus},
		}})
	}
	if enabled(features.GenericWorkload) {
		all = append(all, group{kinds: []string{"podgroups.scheduling.k8s.io"}, members: []member{
			{"podgroup-protection-controller", "podgroup-protection-controller", podGroupProtection},
		}})
	}
	if enabled(genericfeatures.CoordinatedLeaderElection) {
		all = append(all, group{kinds: []string{"leasecandidates.coordination.k8s.io"}, unselectable: true,
			members: []member{
				{"coordinated leader election", serverAccount, coordinatedLeaderElection},
			}})
	}
	return all
}

func enabled(gate featuregate.Feature) bool { return utilfeature.DefaultFeatureGate.Enabled(gate) }

// deviceTaintEviction returns the controller that evicts pods whose devices have NoExecute taints,
// in their ResourceSlice or by a DeviceTaintRule.
func deviceTaintEviction(_ context.Context, read *access) (controller, error) {
	evictions := devicetainteviction.New(read.client, read.pods(), read.resourceClaims(), read.resourceSlices(),
		read.taintRulesIfEnabled(),
		read.deviceClasses(), deviceTaintEvictionName)
	return failing(evictions.Run), nil
}

// taintRulesIfEnabled returns nil if the feature gate of DeviceTaintRules is off; they may not be
// served then.
func (s *informers) taintRulesIfEnabled() devices.DeviceTaintRuleInformer {
	if !enabled(features.DRADeviceTaintRules) {
		return nil
	}
	return s.taintRules()
}

// failing is a controller that can fail to start. It logs the error.
type failing func(ctx context.Context, workers int) error

func (run failing) Run(ctx context.Context, workers int) {
	if err := run(ctx, workers); err != nil {
		klog.FromContext(ctx).Error(err, "Controller ended")
	}
}

// resourcePoolStatus returns the controller that answers ResourcePoolStatusRequests.
func resourcePoolStatus(ctx context.Context, read *access) (controller, error) {
	return resourcepoolstatusrequest.NewController(ctx, read.client, read.poolRequests(), read.resourceSlices(),
		read.resourceClaims(), read.taintRulesIfEnabled())
}

// podGroupProtection returns the controller that keeps PodGroups with pods from being deleted.
func podGroupProtection(ctx context.Context, read *access) (controller, error) {
	return podgroupprotection.NewPodGroupProtectionController(klog.FromContext(ctx), read.podGroups(), read.pods(),
		read.client)
}

// coordinatedLeaderElection returns the controllers of LeaseCandidates, which are part of
// kube-apiserver: one elects leaders among them, and one deletes those that expired.
func coordinatedLeaderElection(_ context.Context, read *access) (controller, error) {
	elections, err := leaderelection.NewController(read.leases(), read.leaseCandidates(), read.client.CoordinationV1(),
		read.client.CoordinationV1beta1())
	if err != nil {
		return nil, err
	}
	collector := leaderelection.NewLeaseCandidateGC(read.client, candidateCollection, read.leaseCandidates())
	return single(func(ctx context.Context) {
		var parts sync.WaitGroup
		parts.Go(func() { elections.Run(ctx, 1) })
		parts.Go(func() { collector.Run(ctx) })
		parts.Wait()
	}), nil
}
