package builtin

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/registry/core/pod"

	"kelson.dev/apiserver/resource"
)

// podSubresources returns the subresources of pods except status.
func (k *kinds) podSubresources() []resource.Subresource {
	binding := schema.GroupVersionKind{Version: "v1", Kind: "Binding"}
	eviction := schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}
	return append(k.podConnections(), []resource.Subresource{
		{Name: "binding", GVK: binding, Owners: ownersOfBody(binding, "binding"), Prepare: checkBinding,
			Create: k.bindPod},
		{Name: "ephemeralcontainers", NoTable: true,
			Update: &resource.UpdateView{Strategy: pod.EphemeralContainersStrategy}},
		{
			Name: "eviction", GVK: eviction, Accepts: []string{"v1beta1"}, Owners: ownersOfBody(eviction, "eviction"),
			Prepare: prepareEviction, Create: k.evictPod,
		},
		{Name: "log", Object: func(string) (string, error) { return "", nil }, Connect: k.podLog},
		{Name: "resize", NoTable: true, Update: &resource.UpdateView{Strategy: pod.ResizeStrategy}},
		k.podProxy(),
	}...)
}
