package builtin

import (
	"maps"
	"testing"

	"kelson.dev/apiserver/resource"
	"kelson.dev/internal/require"
)

// Exactly the kinds that kube-apiserver treats specially have a special behavior in the tables of
// kinds.
func TestBehavior(t *testing.T) {
	all, err := Resources(Config{})
	require.NoError(t, err)
	unsafe := resource.Behavior{Delete: resource.DeleteBehavior{NotUnsafe: true}}
	behaviors := map[string]resource.Behavior{
		"events":               {NotCached: true},
		"events.events.k8s.io": {NotCached: true},
		"namespaces": {IsNamespace: true, Delete: resource.DeleteBehavior{
			Preconditions: "Precondition", OnceHeld: true, NoGracePeriod: true, NotUnsafe: true,
		}},
		"roles.rbac.authorization.k8s.io":               unsafe,
		"rolebindings.rbac.authorization.k8s.io":        unsafe,
		"clusterroles.rbac.authorization.k8s.io":        unsafe,
		"clusterrolebindings.rbac.authorization.k8s.io": unsafe,
	}
	paths := map[string]string{
		"replicationcontrollers":             "controllers",
		"endpoints":                          "services/endpoints",
		"services":                           "services/specs",
		"nodes":                              "minions",
		"ingresses.networking.k8s.io":        "ingress",
		"apiservices.apiregistration.k8s.io": "apiregistration.k8s.io/apiservices",
	}
	hashes := map[string]string{"clustertrustbundles.certificates.k8s.io": "v1beta1",
		"podcertificaterequests.certificates.k8s.io":       "v1beta1",
		"devicetaintrules.resource.k8s.io":                 "v1beta2",
		"storageversionmigrations.storagemigration.k8s.io": "v1beta1"}
	gotBehaviors, gotPaths, gotHashes := map[string]resource.Behavior{}, map[string]string{}, map[string]string{}
	for _, r := range all {
		name := r.GroupResource().String()
		if r.Behavior != (resource.Behavior{}) {
			gotBehaviors[name] = r.Behavior
		}
		if r.StoragePath != "" {
			gotPaths[name] = r.StoragePath
		}
		if r.HashVersion != "" {
			gotHashes[name] = r.HashVersion
		}
		for _, sub := range r.Subresources {
			if sub.Update != nil && sub.Update.Get != nil && !sub.Update.Internal {
				t.Errorf("%s/%s: a built-in view without its internal type", name, sub.Name)
			}
		}
	}
	if !maps.Equal(gotBehaviors, behaviors) {
		t.Errorf("behaviors %+v", gotBehaviors)
	}
	if !maps.Equal(gotPaths, paths) {
		t.Errorf("storage paths %v", gotPaths)
	}
	if !maps.Equal(gotHashes, hashes) {
		t.Errorf("hash versions %v", gotHashes)
	}
}
