package builtin

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/registry/rest"
	apiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"

	"kelson.dev/apiserver/resource"
	"kelson.dev/kubernetes/emulation"
)

// emulated filters all: it returns the resources that exist in an emulated release, with the
// versions that exist in it. Kubernetes' own code decides this from the lifecycles of the types. An
// error means that apis explicitly enable a resource that is newer than the release.
func emulated(all []*resource.Resource, apis *APIs, v emulation.Version) ([]*resource.Resource, error) {
	if v.Emulated == "" {
		return all, nil
	}
	effective, err := v.Effective()
	if err != nil {
		return nil, err
	}
	evaluator, err := apiserver.NewResourceExpirationEvaluatorFromOptions(apiserver.ResourceExpirationEvaluatorOptions{
		CurrentVersion:                          effective.EmulationVersion(),
		EmulationForwardCompatible:              v.ForwardCompatible,
		RuntimeConfigEmulationForwardCompatible: v.ConfigForwardCompatible,
	})
	if err != nil {
		return nil, err
	}
	groups := map[string]map[string]map[string]upstream.Storage{} // group, version, resource
	for _, r := range all {
		if groups[r.Group] == nil {
			groups[r.Group] = map[string]map[string]upstream.Storage{}
		}
		for _, version := range r.Versions {
			if groups[r.Group][version.Name] == nil {
				groups[r.Group][version.Name] = map[string]upstream.Storage{}
			}
			groups[r.Group][version.Name][r.Plural] = storageOf{r}
		}
	}
	// Convert apis only if it is not nil: an interface with a nil *APIs is not nil.
	var config serverstorage.APIResourceConfigSource
	if apis != nil {
		config = apis
	}
	for group, versions := range groups {
		if err := evaluator.RemoveUnavailableKinds(group, Scheme(), versions, config); err != nil {
			return nil, err
		}
	}
	encoding := serverstorage.NewDefaultResourceEncodingConfigForEffectiveVersion(Scheme(), effective)
	out := make([]*resource.Resource, 0, len(all))
	for _, r := range all {
		filtered := *r
		filtered.Versions = slices.DeleteFunc(slices.Clone(r.Versions), func(version resource.Version) bool {
			_, served := groups[r.Group][version.Name][r.Plural]
			return !served
		})
		if len(filtered.Versions) == 0 {
			continue
		}
		if filtered.HashVersion == "" && filtered.StorageVersion != "" {
			stored, err := encoding.BackwardCompatibileStorageEncodingFor(r.GroupResource(), storageOf{r}.New())
			if err != nil {
				return nil, err
			}
			if stored.Version != filtered.StorageVersion {
				filtered.HashVersion = stored.Version
			}
		}
		out = append(out, &filtered)
	}
	return out, nil
}

// storageOf adapts a resource to the interface by which Kubernetes decides which kinds to serve.
type storageOf struct{ *resource.Resource }

// New returns an object of the resource's internal type.
func (s storageOf) New() runtime.Object { return s.Codec.New() }

func (storageOf) Destroy() {}
