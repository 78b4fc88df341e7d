package bootstrappolicy

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"kelson.dev/apiserver/store"
)

// gateResult is the result of ofGates for one state of the feature gates.
type gateResult struct {
	gates   string // a byte for each gate of gateNames, and the version that is emulated
	objects []*object
	err     error
}

// lastGated is the result for the gates of the latest start: a program that starts many control
// planes rarely changes its gates in between.
var lastGated atomic.Pointer[gateResult]

// gateNames are the names of all feature gates. Packages add theirs while they are initialized.
var gateNames = sync.OnceValue(func() []featuregate.Feature {
	return slices.Sorted(maps.Keys(utilfeature.DefaultMutableFeatureGate.GetAll()))
})

// ofGates returns the cluster roles and bindings of Kubernetes' policy that are not in policy.txt,
// or have other rules there, because a feature gate does not have its default. Without them, the
// controllers of these features could not work.
func ofGates() ([]*object, error) {
	gates := gatesNow()
	if last := lastGated.Load(); last != nil && last.gates == gates {
		return slices.Clone(last.objects), last.err
	}
	now := &gateResult{gates: gates}
	now.objects, now.err = compareGates()
	lastGated.Store(now)
	return slices.Clone(now.objects), now.err
}

func gatesNow() string {
	state := make([]byte, len(gateNames()))
	for i, name := range gateNames() {
		if utilfeature.DefaultFeatureGate.Enabled(name) {
			state[i] = 1
		}
	}
	return string(state) + utilfeature.DefaultMutableFeatureGate.EmulationVersion().String()
}

func compareGates() ([]*object, error) {
	if !gatesChanged() {
		return nil, nil
	}
	known := map[store.Key]*object{}
	for _, o := range policy() {
		known[o.key] = o
	}
	var all []*object
	add := func(key store.Key, obj any) error {
		text, err := json.Marshal(obj)
		all = append(all, &object{key: key, posted: template{{text: string(text)}}})
		return err
	}
	for _, list := range [][]rbacv1.ClusterRole{bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()} {
		for i := range list {
			key := store.Key{Resource: clusterRoles, Name: list[i].Name}
			if o := known[key]; o != nil {
				if role, err := wanted[rbacv1.ClusterRole](o); err != nil ||
					equality.Semantic.DeepEqual(role.Rules, list[i].Rules) {
					continue
				}
			}
			if err := add(key, &list[i]); err != nil {
				return nil, err
			}
		}
	}
	for _, list := range [][]rbacv1.ClusterRoleBinding{bootstrappolicy.ClusterRoleBindings(),
		bootstrappolicy.ControllerRoleBindings()} {
		for i := range list {
			key := store.Key{Resource: clusterRoleBindings, Name: list[i].Name}
			if known[key] != nil {
				continue
			}
			if err := add(key, &list[i]); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// gatesChanged reports whether a feature gate does not have its default.
func gatesChanged() bool {
	for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		if name != "AllAlpha" && name != "AllBeta" && utilfeature.DefaultFeatureGate.Enabled(name) != spec.Default {
			return true
		}
	}
	return false
}
