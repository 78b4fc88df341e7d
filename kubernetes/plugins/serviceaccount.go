package plugins

import (
	"context"
	"time"

	"k8s.io/apiserver/pkg/admission"
	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/plugin/pkg/admission/serviceaccount"

	"kelson.dev/apiserver/store"
)

// accountWait is how long a pod waits for its namespace's default service account, which a
// controller creates after the namespace. Upstream tries ten times, up to 200 ms apart.
const accountWait = time.Second

// accounts is the plugin ServiceAccount. Upstream's plugin sleeps and retries until a new namespace
// has its default account; this one waits for the store's event.
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

// await returns when the default account of a namespace exists, or after accountWait.
func (p *accounts) await(ctx context.Context, namespace string) {
	key := store.Key{Resource: "serviceaccounts", Namespace: namespace, Name: serviceaccount.DefaultServiceAccountName}
	if p.store.Snapshot().Get(key) != nil {
		return
	}
	ctx, stop := context.WithTimeout(ctx, accountWait)
	defer stop()
	// An error means that the store is closed; the write will fail for the same reason.
	_ = p.store.Follow(ctx, key.Resource, func(sn *store.Snapshot) {
		if sn.Get(key) != nil {
			stop()
		}
	}, func(events []*store.Event) {
		for _, e := range events {
			if e.Object.Key == key && e.Type != store.Deleted {
				stop()
			}
		}
	})
}
