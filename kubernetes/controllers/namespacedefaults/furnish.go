// Package namespacedefaults keeps in every namespace what Kubernetes puts there: the ServiceAccount default, and the ConfigMap kube-root-ca.crt
// with the certificate by which pods trust the API server.
//
// What is deleted comes back, and the ConfigMap's data is put right; in a namespace that is being deleted nothing is.
package namespacedefaults

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/operator/client"
)

// The names of what is kept.
const (
	ServiceAccount = "default"
	ConfigMap      = "kube-root-ca.crt"
)

const (
	describes   = "kubernetes.io/description"
	description = "The authority of the API server's certificate, for clients that use its internal addresses (kubernetes.default.svc)."
)

// Config is what the controller works on.
type Config struct {
	Store  *store.Store
	Client client.Client
	// RootCA is the content of the ConfigMap, PEM; nil: there is no ConfigMap.
	RootCA []byte
	Log    *slog.Logger
}

// Controller furnishes the namespaces of one control plane.
type Controller struct{ cfg Config }

// New returns a controller; Run makes it work.
func New(cfg Config) *Controller { return &Controller{cfg} }

// Run works until ctx ends or the store is closed.
func (c *Controller) Run(ctx context.Context) error {
	resources := []string{"namespaces", "serviceaccounts"}
	if c.cfg.RootCA != nil {
		resources = append(resources, "configmaps")
	}
	return follow.Run(ctx, follow.Config[string]{
		Name: "furnish", Store: c.cfg.Store, Resources: resources, Keys: namespaceOf, Sync: c.sync, Log: c.cfg.Log,
	})
}

func namespaceOf(obj *store.Object, add func(string)) {
	switch key := obj.Key; {
	case key.Resource == "namespaces":
		add(key.Name)
	case key.Resource == "serviceaccounts" && key.Name == ServiceAccount, key.Resource == "configmaps" && key.Name == ConfigMap:
		add(key.Namespace)
	}
}

func (c *Controller) sync(ctx context.Context, namespace string) (time.Duration, error) {
	sn := c.cfg.Store.Snapshot()
	ns := sn.Get(store.Key{Resource: "namespaces", Name: namespace})
	if ns == nil || !ns.Head.DeletionTimestamp.IsZero() {
		return 0, nil
	}
	// The certificate comes first: whoever sees the service account may run pods, which want both.
	if c.cfg.RootCA != nil {
		if err := c.publish(ctx, namespace, sn.Get(store.Key{Resource: "configmaps", Namespace: namespace, Name: ConfigMap})); err != nil {
			return 0, err
		}
	}
	if sn.Get(store.Key{Resource: "serviceaccounts", Namespace: namespace, Name: ServiceAccount}) == nil {
		err := c.create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ServiceAccount}})
		if err != nil {
			return 0, fmt.Errorf("create service account: %w", err)
		}
	}
	return 0, nil
}

// publish writes the ConfigMap if what is stored is not as it should be.
func (c *Controller) publish(ctx context.Context, namespace string, stored *store.Object) error {
	want := map[string]string{"ca.crt": string(c.cfg.RootCA)}
	if stored == nil {
		err := c.create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ConfigMap, Annotations: map[string]string{describes: description}},
			Data:       want,
		})
		if err != nil {
			return fmt.Errorf("create root CA: %w", err)
		}
		return nil
	}
	have, err := derived.Of[corev1.ConfigMap](stored)
	if err != nil {
		return fmt.Errorf("read root CA: %w", err)
	}
	if maps.Equal(have.Data, want) && len(have.BinaryData) == 0 && have.Annotations[describes] != "" {
		return nil
	}
	have = have.DeepCopy()
	have.Data, have.BinaryData = want, nil
	if have.Annotations == nil {
		have.Annotations = map[string]string{}
	}
	have.Annotations[describes] = description
	if err := c.cfg.Client.Update(ctx, have); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update root CA: %w", err)
	}
	return nil
}

// create creates an object unless it is there by now, or its namespace is going or gone.
func (c *Controller) create(ctx context.Context, obj client.Object) error {
	err := c.cfg.Client.Create(ctx, obj)
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}
