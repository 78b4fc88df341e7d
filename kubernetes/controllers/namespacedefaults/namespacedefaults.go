// Package namespacedefaults replaces serviceaccount-controller and
// root-ca-certificate-publisher-controller: it maintains in every namespace the ServiceAccount
// "default", and the ConfigMap kube-root-ca.crt with the certificate with which pods verify the API
// server.
//
// It creates them again when they are deleted, and restores the ConfigMap's data when it is
// changed, except in namespaces that are being deleted.
package namespacedefaults

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/operator/client"
)

// The names of the objects that the controller maintains.
const (
	ServiceAccount = "default"
	ConfigMap      = "kube-root-ca.crt"
)

const (
	describes   = "kubernetes.io/description"
	description = "The authority of the API server's certificate, for clients that use its internal addresses (kubernetes.default.svc)."
)

// Config configures the controller. Store, Accounts and ConfigMaps are required.
type Config struct {
	Store *store.Store
	// Accounts creates the ServiceAccounts, and ConfigMaps writes the ConfigMaps.
	Accounts, ConfigMaps client.Client
	// RootCA is the certificate (PEM) in the ConfigMap. If nil, the ConfigMap is not created.
	RootCA []byte
	Log    *slog.Logger
}

// Controller maintains the default objects in the namespaces of one control plane.
type Controller struct{ cfg Config }

// New returns a controller; call Run to start it.
func New(cfg Config) *Controller { return &Controller{cfg} }

// Run runs the controller until ctx ends or the store is closed.
func (c *Controller) Run(ctx context.Context) error {
	resources := []string{"namespaces", "serviceaccounts"}
	if c.cfg.RootCA != nil {
		resources = append(resources, "configmaps")
	}
	return follow.Run(ctx, follow.Config[string]{
		Name: "namespace defaults", Store: c.cfg.Store, Resources: resources, Keys: namespaceOf, Sync: c.sync,
		Log: c.cfg.Log,
	})
}

func namespaceOf(obj *store.Object, add func(string)) {
	switch key := obj.Key; {
	case key.Resource == "namespaces":
		add(key.Name)
	case key.Resource == "serviceaccounts" && key.Name == ServiceAccount, key.Resource == "configmaps" &&
		key.Name == ConfigMap:
		add(key.Namespace)
	}
}

func (c *Controller) sync(ctx context.Context, namespace string) (time.Duration, error) {
	sn := c.cfg.Store.Snapshot()
	ns := sn.Get(store.Key{Resource: "namespaces", Name: namespace})
	if ns == nil || !ns.Head.DeletionTimestamp.IsZero() {
		return 0, nil
	}
	// Write the certificate first. As soon as the service account exists, clients may create pods,
	// which need both. A failure of one, such as a webhook for ConfigMaps that does not answer,
	// does not prevent the other.
	var failed []error
	if c.cfg.RootCA != nil {
		failed = append(failed, c.publish(ctx, namespace,
			sn.Get(store.Key{Resource: "configmaps", Namespace: namespace, Name: ConfigMap})))
	}
	if sn.Get(store.Key{Resource: "serviceaccounts", Namespace: namespace, Name: ServiceAccount}) == nil {
		err := c.create(ctx, c.cfg.Accounts, "serviceaccounts",
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ServiceAccount}})
		if err != nil {
			failed = append(failed, fmt.Errorf("create service account: %w", err))
		}
	}
	return 0, errors.Join(failed...)
}

// publish creates the ConfigMap, or updates it if its contents differ.
func (c *Controller) publish(ctx context.Context, namespace string, stored *store.Object) error {
	want := map[string]string{"ca.crt": string(c.cfg.RootCA)}
	if stored == nil {
		err := c.create(ctx, c.cfg.ConfigMaps, "configmaps", &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ConfigMap,
				Annotations: map[string]string{describes: description}},
			Data: want,
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
	if err := follow.IgnoreGone(c.cfg.Store, stored.Key, stored.Head.UID,
		c.cfg.ConfigMaps.Update(ctx, have)); err != nil {
		return fmt.Errorf("update root CA: %w", err)
	}
	return nil
}

// create creates an object. It ignores errors if the object exists, or if its namespace is
// terminating or deleted.
func (c *Controller) create(ctx context.Context, as client.Client, resource string, obj client.Object) error {
	err := as.Create(ctx, obj)
	if err == nil {
		return nil
	}
	ns := c.cfg.Store.Snapshot().Get(store.Key{Resource: "namespaces", Name: obj.GetNamespace()})
	if ns == nil || !ns.Head.DeletionTimestamp.IsZero() {
		return nil
	}
	return follow.IgnoreExists(c.cfg.Store, store.Key{Resource: resource, Namespace: obj.GetNamespace(),
		Name: obj.GetName()}, err)
}
