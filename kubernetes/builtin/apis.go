package builtin

import (
	"maps"
	"regexp"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsinstall "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/server/resourceconfig"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"

	"kelson.dev/apiserver/resource"
)

// APIs selects the versions and single resources that a control plane serves. nil selects all
// stable versions, as kube-apiserver does by default. It is immutable.
type APIs = serverstorage.ResourceConfig

// ParseAPIs returns the APIs that the pairs of kube-apiserver's flag --runtime-config select. The
// keys are api/all, api/ga, api/beta, api/alpha, group/version and group/version/resource. The
// errors are kube-apiserver's.
func ParseAPIs(pairs map[string]string) (*APIs, error) {
	known := runtime.NewScheme()
	apiextensionsinstall.Install(known)
	registries := schemes{Scheme(), known}
	given := options.APIEnablementOptions{RuntimeConfig: maps.Clone(pairs)}
	if errs := given.Validate(registries[0], registries[1]); len(errs) > 0 {
		return nil, utilerrors.NewAggregate(errs)
	}
	config := serverstorage.NewResourceConfig()
	for _, version := range registries.PrioritizedVersionsAllGroups() {
		if stable(version.Version) {
			config.EnableVersions(version)
		} else {
			config.DisableVersions(version)
		}
	}
	return resourceconfig.MergeAPIResourceConfigs(config, given.RuntimeConfig, registries)
}

// stable reports whether a version is served by default.
func stable(version string) bool { return stableVersion.MatchString(version) }

var stableVersion = regexp.MustCompile(`^v\d+$`)

// schemes are the types of all servers that kube-apiserver consists of.
type schemes []*runtime.Scheme

func (s schemes) IsGroupRegistered(group string) bool {
	return slices.ContainsFunc(s, func(one *runtime.Scheme) bool { return one.IsGroupRegistered(group) })
}

func (s schemes) IsVersionRegistered(v schema.GroupVersion) bool {
	return slices.ContainsFunc(s, func(one *runtime.Scheme) bool { return one.IsVersionRegistered(v) })
}

func (s schemes) PrioritizedVersionsAllGroups() []schema.GroupVersion {
	var all []schema.GroupVersion
	for _, one := range s {
		all = append(all, one.PrioritizedVersionsAllGroups()...)
	}
	return all
}

func (s schemes) PrioritizedVersionsForGroup(group string) []schema.GroupVersion {
	var all []schema.GroupVersion
	for _, one := range s {
		all = append(all, one.PrioritizedVersionsForGroup(group)...)
	}
	return all
}

// ServesDefinitions reports whether apis include CustomResourceDefinitions.
func ServesDefinitions(apis *APIs) bool {
	return apis == nil || apis.ResourceEnabled(apiextensions.Resource("customresourcedefinitions").WithVersion("v1"))
}

// gates are the feature gates without which kinds are not served in any version.
var gates = map[schema.GroupResource]featuregate.Feature{
	{Group: "certificates.k8s.io", Resource: "clustertrustbundles"}:          features.ClusterTrustBundle,
	{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}:       features.PodCertificateRequest,
	{Group: "lifecycle.k8s.io", Resource: "evictions"}:                       features.EvictionRequestAPI,
	{Group: "lifecycle.k8s.io", Resource: "evictionrequests"}:                features.EvictionRequestAPI,
	{Group: "scheduling.k8s.io", Resource: "compositepodgroups"}:             features.CompositePodGroup,
	{Group: "scheduling.k8s.io", Resource: "podgroups"}:                      features.GenericWorkload,
	{Group: "scheduling.k8s.io", Resource: "workloads"}:                      features.GenericWorkload,
	{Group: "storagemigration.k8s.io", Resource: "storageversionmigrations"}: features.StorageVersionMigrator,
}

// selected returns the resources that apis select, with the versions that they select. It does not
// modify its argument.
func selected(all []*resource.Resource, apis *APIs) []*resource.Resource {
	out := make([]*resource.Resource, 0, len(all))
	for _, r := range all {
		if gate, gated := gates[r.GroupResource()]; gated && !utilfeature.DefaultFeatureGate.Enabled(gate) {
			continue
		}
		served := func(v resource.Version) bool {
			return apis == nil && stable(v.Name) || apis != nil && apis.ResourceEnabled(r.GVR(v.Name))
		}
		versions := make([]resource.Version, 0, len(r.Versions))
		for _, v := range r.Versions {
			if served(v) {
				versions = append(versions, v)
			}
		}
		switch len(versions) {
		case 0:
		case len(r.Versions):
			out = append(out, r)
		default:
			filtered := *r
			filtered.Versions = versions
			out = append(out, &filtered)
		}
	}
	return out
}
