package builtin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/endpoint"
	"k8s.io/kubernetes/pkg/registry/core/event"
	"k8s.io/kubernetes/pkg/registry/core/limitrange"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/podtemplate"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"

	"kelson.dev/apiserver/resource"
)

// core returns the kinds of /api/v1 whose rules depend on other objects.
func (k *kinds) core(services *services) []entry {
	return []entry{
		{hub: &core.Binding{}, plural: "bindings", versions: v1, review: k.binding()},
		{hub: &core.ComponentStatus{}, plural: "componentstatuses", versions: v1, short: []string{"cs"},
			computed: k.componentStatuses()},
		{hub: &core.Pod{}, plural: "pods", versions: v1, short: []string{"po"}, categories: all, returned: true,
			strategy: pod.Strategy, status: pod.StatusStrategy, fields: selectable(pod.ToSelectableFields),
			storedFields: storedPodFields, subs: k.podSubresources()},
		{hub: &core.ServiceAccount{}, plural: "serviceaccounts", versions: v1, short: []string{"sa"}, returned: true,
			strategy: serviceaccount.Strategy, subs: k.serviceAccountSubresources()},
		{hub: &core.Service{}, plural: "services", versions: v1, short: []string{"svc"}, categories: all,
			returned: true, storagePath: "services/specs",
			strategy: newServiceStrategy(), status: service.StatusStrategy,
			fields: selectable(service.SelectableFields),
			subs:   []resource.Subresource{k.serviceProxy()}, hooks: services.hooks()},
		{hub: &core.Node{}, plural: "nodes", versions: v1, short: []string{"no"}, storagePath: "minions",
			strategy: node.Strategy, status: node.StatusStrategy, fields: selectable(node.NodeToSelectableFields),
			subs: []resource.Subresource{k.nodeProxy()}, complete: allocatable},
	}
}

// defaulted sets the defaults of an object before it is stored.
func defaulted(versioned runtime.Object) { Scheme().Default(versioned) }

// allocatable sets status.allocatable to status.capacity if it is empty, as the node's defaults do
// when it is read.
func allocatable(versioned runtime.Object) {
	if status := &versioned.(*corev1.Node).Status; len(status.Allocatable) == 0 && len(status.Capacity) > 0 {
		status.Allocatable = status.Capacity
	}
}

// plainCore returns the other kinds of /api/v1, and the Events of events.k8s.io, which are the same
// objects.
func plainCore() []entry {
	return []entry{
		{hub: &core.ConfigMap{}, plural: "configmaps", versions: v1, short: []string{"cm"},
			strategy: dataStrategy{configmap.Strategy}},
		{hub: &core.Endpoints{}, plural: "endpoints", versions: v1, short: []string{"ep"},
			storagePath: "services/endpoints",
			strategy:    endpoint.Strategy},
		{hub: &core.Event{}, plural: "events", versions: v1, short: []string{"ev"},
			behavior: resource.Behavior{NotCached: true},
			strategy: event.Strategy, fields: selectable(event.ToSelectableFields)},
		{hub: &core.Event{}, plural: "events", versions: v1, short: []string{"ev"}, group: "events.k8s.io",
			storedAs: "events", behavior: resource.Behavior{NotCached: true},
			strategy: event.Strategy, fields: selectable(event.ToSelectableFields)},
		{hub: &core.LimitRange{}, plural: "limitranges", versions: v1, short: []string{"limits"},
			strategy: limitrange.Strategy},
		{hub: &core.Namespace{}, plural: "namespaces", versions: v1, short: []string{"ns"}, returned: true,
			behavior: namespaceBehavior,
			verbs:    []string{"create", "delete", "get", "list", "patch", "update", "watch"},
			strategy: namespace.Strategy, status: namespace.StatusStrategy,
			fields: selectable(namespace.NamespaceToSelectableFields),
			subs: []resource.Subresource{{Name: "finalize", Verbs: []string{"update"},
				Update: &resource.UpdateView{Strategy: namespace.FinalizeStrategy}}},
			hooks: namespaceHooks()},
		{hub: &core.PersistentVolumeClaim{}, plural: "persistentvolumeclaims", versions: v1, short: []string{"pvc"},
			returned: true, complete: defaulted,
			strategy: persistentvolumeclaim.Strategy, status: persistentvolumeclaim.StatusStrategy,
			fields: selectable(persistentvolumeclaim.PersistentVolumeClaimToSelectableFields)},
		{hub: &core.PersistentVolume{}, plural: "persistentvolumes", versions: v1, short: []string{"pv"},
			returned: true,
			strategy: persistentvolume.Strategy, status: persistentvolume.StatusStrategy,
			fields: selectable(persistentvolume.PersistentVolumeToSelectableFields)},
		{hub: &core.PodTemplate{}, plural: "podtemplates", versions: v1, returned: true,
			strategy: podtemplate.Strategy},
		{hub: &core.ReplicationController{}, plural: "replicationcontrollers", versions: v1, short: []string{"rc"},
			categories: all, storagePath: "controllers",
			strategy: replicationcontroller.Strategy, status: replicationcontroller.StatusStrategy,
			fields: selectable(replicationcontroller.ControllerToSelectableFields),
			subs:   []resource.Subresource{scale(replicationcontroller.Strategy, replicationControllerScale)}},
		{hub: &core.ResourceQuota{}, plural: "resourcequotas", versions: v1, short: []string{"quota"}, returned: true,
			strategy: resourcequota.Strategy, status: resourcequota.StatusStrategy},
		{hub: &core.Secret{}, plural: "secrets", versions: v1,
			strategy: dataStrategy{secret.Strategy}, fields: selectable(secret.SelectableFields)},
	}
}

// namespaceBehavior describes how Namespaces differ from other kinds, because kube-apiserver has a
// separate DELETE handler for them.
var namespaceBehavior = resource.Behavior{
	IsNamespace: true,
	Delete: resource.DeleteBehavior{Preconditions: "Precondition", OnceHeld: true, NoGracePeriod: true,
		NotUnsafe: true},
}

// namespaceHooks makes a deleted namespace Terminating, and keeps it while spec.finalizers has
// entries.
func namespaceHooks() *resource.Hooks {
	return &resource.Hooks{
		OnDelete: func(_ context.Context, hub runtime.Object, _ bool) error {
			hub.(*core.Namespace).Status.Phase = core.NamespaceTerminating
			return nil
		},
		HoldsDelete: func(hub runtime.Object) bool { return len(hub.(*core.Namespace).Spec.Finalizers) > 0 },
	}
}
