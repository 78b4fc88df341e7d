package builtin

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/registry/core/pod"

	"kelson.dev/apiserver/resource"
)

// podSubresources returns the subresources of pods except status.
func (k *kinds) podSubresources() []resource.Subresource {
	return append(k.podConnections(), []resource.Subresource{
		{Name: "binding", GVK: schema.GroupVersionKind{Version: "v1", Kind: "Binding"}, Prepare: checkBinding, Create: k.bindPod},
		{Name: "ephemeralcontainers", NoTable: true, Update: &resource.UpdateView{Strategy: pod.EphemeralContainersStrategy}},
		{Name: "eviction", GVK: schema.GroupVersionKind{Group: "policy", Version: "v1", Kind: "Eviction"}, Accepts: []string{"v1beta1"}, Prepare: prepareEviction, Create: k.evictPod},
		{Name: "log", Object: func(string) (string, error) { return "", nil }, Connect: k.podLog},
		{Name: "resize", NoTable: true, Update: &resource.UpdateView{Strategy: pod.ResizeStrategy}},
		k.podProxy(),
	}...)
}
