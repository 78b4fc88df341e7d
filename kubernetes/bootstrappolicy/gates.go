package bootstrappolicy

import (
	"encoding/json"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"kelson.dev/apiserver/store"
)

// ofGates returns the cluster roles and bindings of Kubernetes' policy that are not in policy.txt,
// or have other rules there, because a feature gate does not have its default. Without them, the
// controllers of these features could not work.
func ofGates() ([]*object, error) {
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
				if role, err := wanted[rbacv1.ClusterRole](o); err != nil || equality.Semantic.DeepEqual(role.Rules, list[i].Rules) {
					continue
				}
			}
			if err := add(key, &list[i]); err != nil {
				return nil, err
			}
		}
	}
	for _, list := range [][]rbacv1.ClusterRoleBinding{bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()} {
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
