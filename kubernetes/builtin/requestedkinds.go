package builtin

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/apiserverinternal"
	"k8s.io/kubernetes/pkg/apis/lifecycle"
	"k8s.io/kubernetes/pkg/apis/resource"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/kubernetes/pkg/apis/storagemigration"
	"k8s.io/kubernetes/pkg/registry/apiserverinternal/storageversion"
	"k8s.io/kubernetes/pkg/registry/lifecycle/eviction"
	"k8s.io/kubernetes/pkg/registry/lifecycle/evictionrequest"
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/resource/devicetaintrule"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaimtemplate"
	"k8s.io/kubernetes/pkg/registry/resource/resourcepoolstatusrequest"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"
	"k8s.io/kubernetes/pkg/registry/scheduling/compositepodgroup"
	"k8s.io/kubernetes/pkg/registry/scheduling/podgroup"
	"k8s.io/kubernetes/pkg/registry/scheduling/workload"
	migration "k8s.io/kubernetes/pkg/registry/storagemigration/storagemigration"
	"k8s.io/utils/clock"
)

// deviceVersions are the versions of the kinds of resource.k8s.io.
var deviceVersions = []string{"v1", "v1beta2", "v1beta1"}

// deviceKinds returns the kinds of resource.k8s.io.
func deviceKinds() []entry {
	// These strategies of claims do not check permissions and do not read namespaces; kinds.claims
	// replaces them.
	claims := resourceclaim.NewStrategy(nil, nil)
	return []entry{
		{hub: &resource.DeviceClass{}, plural: "deviceclasses", versions: deviceVersions, returned: true,
			strategy: deviceclass.Strategy},
		{hub: &resource.DeviceTaintRule{}, plural: "devicetaintrules", versions: []string{"v1", "v1beta2", "v1alpha3"},
			hashVersion: "v1beta2",
			returnedIn:  []string{"v1beta2", "v1alpha3"}, strategy: devicetaintrule.Strategy,
			status: devicetaintrule.StatusStrategy, noStatusTable: true},
		{hub: &resource.ResourceClaim{}, plural: "resourceclaims", versions: deviceVersions, returned: true,
			strategy: claims, status: resourceclaim.NewStatusStrategy(claims), noStatusTable: true},
		{hub: &resource.ResourceClaimTemplate{}, plural: "resourceclaimtemplates", versions: deviceVersions,
			returned: true,
			strategy: resourceclaimtemplate.NewStrategy(nil)},
		{hub: &resource.ResourcePoolStatusRequest{}, plural: "resourcepoolstatusrequests",
			versions: []string{"v1alpha3"}, returned: true,
			strategy: resourcepoolstatusrequest.Strategy, status: resourcepoolstatusrequest.StatusStrategy,
			noStatusTable: true},
		{hub: &resource.ResourceSlice{}, plural: "resourceslices", versions: deviceVersions, returned: true,
			strategy: resourceslice.Strategy,
			fields:   sliceFields},
	}
}

// sliceFields returns the selectable fields of ResourceSlices. Kubelets select by node.
func sliceFields(hub runtime.Object) fields.Set {
	_, set, err := resourceslice.GetAttrs(hub)
	if err != nil {
		return nil // another type, which the codec does not create
	}
	return set
}

// requestedKinds returns the kinds that have only alpha or beta versions, which are served on
// request, and StorageVersionMigration.
func requestedKinds() []entry {
	evictions, requests := eviction.NewStrategy(clock.RealClock{}), evictionrequest.NewStrategy()
	podGroups, composites := podgroup.NewStrategy(), compositepodgroup.NewStrategy()
	return []entry{
		{hub: &apiserverinternal.StorageVersion{}, plural: "storageversions", versions: []string{"v1alpha1"},
			strategy: storageversion.Strategy, status: storageversion.StatusStrategy},
		{hub: &lifecycle.Eviction{}, plural: "evictions", versions: []string{"v1alpha1"},
			strategy: evictions, status: eviction.NewStatusStrategy(evictions)},
		{hub: &lifecycle.EvictionRequest{}, plural: "evictionrequests", versions: []string{"v1alpha1"},
			strategy: requests, status: evictionrequest.NewStatusStrategy(requests)},
		{hub: &scheduling.CompositePodGroup{}, plural: "compositepodgroups", versions: []string{"v1alpha3"},
			strategy: composites, status: compositepodgroup.NewStatusStrategy(composites), noStatusTable: true},
		{hub: &scheduling.PodGroup{}, plural: "podgroups", versions: []string{"v1beta1", "v1alpha3"},
			strategy: podGroups, status: podgroup.NewStatusStrategy(podGroups), noStatusTable: true},
		{hub: &scheduling.Workload{}, plural: "workloads", versions: []string{"v1beta1", "v1alpha3"},
			strategy: workload.Strategy},
		{hub: &storagemigration.StorageVersionMigration{}, plural: "storageversionmigrations", versions: v1AndBeta,
			hashVersion: "v1beta1",
			strategy:    migration.Strategy, status: migration.StatusStrategy},
	}
}
