package plugins

import (
	"context"
	"time"

	"k8s.io/apiserver/pkg/admission"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/plugin/pkg/admission/serviceaccount"

	"kelson.dev/apiserver/store"
)

// accountWait is how long a pod waits for its namespace's default service account, which a controller makes after the namespace;
// upstream tries ten times, up to 200 ms apart.
const accountWait = time.Second

// accounts is the plugin ServiceAccount. Where upstream's sleeps until the default account of a new namespace is there, it waits for the
// event.
type accounts struct {
	*serviceaccount.Plugin
	store *store.Store
}

func newAccounts(st *store.Store, plugin admission.Interface) *accounts {
	return &accounts{plugin.(*serviceaccount.Plugin), st}
}

func (p *accounts) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if pod, ok := a.GetObject().(*api.Pod); ok && a.GetOperation() == admission.Create && a.GetSubresource() == "" {
		if name := pod.Spec.ServiceAccountName; name == "" || name == serviceaccount.DefaultServiceAccountName {
			p.await(ctx, a.GetNamespace())
		}
	}
	return p.Plugin.Admit(ctx, a, o)
}

// await returns when the default account of a namespace is there, or has been waited for long enough.
func (p *accounts) await(ctx context.Context, namespace string) {
	key := store.Key{Resource: "serviceaccounts", Namespace: namespace, Name: serviceaccount.DefaultServiceAccountName}
	if p.store.Snapshot().Get(key) != nil {
		return
	}
	ctx, there := context.WithTimeout(ctx, accountWait)
	defer there()
	// An error is the end of the store, which the write will meet itself.
	_ = p.store.Follow(ctx, key.Resource, func(sn *store.Snapshot) {
		if sn.Get(key) != nil {
			there()
		}
	}, func(events []*store.Event) {
		for _, e := range events {
			if e.Object.Key == key && e.Type != store.Deleted {
				there()
			}
		}
	})
}
