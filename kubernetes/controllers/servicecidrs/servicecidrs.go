// Package servicecidrs makes ServiceCIDRs ready, and keeps one that is being deleted until no
// address of a Service depends on it.
//
// It follows the protocol of Kubernetes' service-cidr-controller: the finalizer
// networking.k8s.io/service-cidr-finalizer and the condition Ready, which is False with the reason
// Terminating while IPAddresses hold the ServiceCIDR. The controller removes the finalizer at least
// 10 s after the deletion began, so that writes that read the ServiceCIDR earlier have ended.
package servicecidrs

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/builtin"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/operator/client"
)

const (
	resource  = "servicecidrs.networking.k8s.io"
	addresses = "ipaddresses.networking.k8s.io"
	finalizer = "networking.k8s.io/service-cidr-finalizer"
	grace     = 10 * time.Second
)

// Config configures the controller. Store and Client are required.
type Config struct {
	Store  *store.Store
	Client client.Client
	Log    *slog.Logger
}

// Controller is the controller of one control plane.
type Controller struct{ cfg Config }

// New returns a controller; call Run to start it.
func New(cfg Config) *Controller { return &Controller{cfg} }

// Run runs the controller until ctx ends or the store is closed.
func (c *Controller) Run(ctx context.Context) error {
	return follow.Run(ctx, follow.Config[string]{
		Name: "service CIDRs", Store: c.cfg.Store, Resources: []string{resource, addresses}, Log: c.cfg.Log,
		Keys: c.keys, Sync: c.sync,
	})
}

// keys adds the ServiceCIDRs that a change of a ServiceCIDR or of an IPAddress can release.
func (c *Controller) keys(obj *store.Object, add func(string)) {
	if obj.Key.Resource == resource {
		add(obj.Key.Name)
	}
	for name, cidr := range c.all() {
		if cidr.DeletionTimestamp != nil {
			add(name)
		}
	}
}

func (c *Controller) all() map[string]*networkingv1.ServiceCIDR {
	all := map[string]*networkingv1.ServiceCIDR{}
	for cidr, err := range derived.List[networkingv1.ServiceCIDR](c.cfg.Store.Snapshot(), resource, "") {
		if err == nil {
			all[cidr.Name] = cidr
		}
	}
	return all
}

func (c *Controller) sync(ctx context.Context, name string) (time.Duration, error) {
	all := c.all()
	cidr := all[name]
	if cidr == nil {
		return 0, nil
	}
	cidr = cidr.DeepCopy()
	if cidr.DeletionTimestamp == nil {
		return 0, c.makeReady(ctx, cidr)
	}
	delete(all, name)
	if c.needed(cidr, all) {
		return 0, c.setReady(ctx, cidr, metav1.Condition{
			Status: metav1.ConditionFalse, Reason: networkingv1.ServiceCIDRReasonTerminating,
			Message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
		})
	}
	if left := grace - time.Since(cidr.DeletionTimestamp.Time); left > 0 {
		return left, nil
	}
	if !slices.Contains(cidr.Finalizers, finalizer) {
		return 0, nil
	}
	cidr.Finalizers = slices.DeleteFunc(cidr.Finalizers, func(f string) bool { return f == finalizer })
	if err := c.cfg.Client.Update(ctx, cidr); err != nil {
		return 0, fmt.Errorf("remove finalizer: %w", err)
	}
	return 0, nil
}

func (c *Controller) makeReady(ctx context.Context, cidr *networkingv1.ServiceCIDR) error {
	if !slices.Contains(cidr.Finalizers, finalizer) {
		cidr.Finalizers = append(cidr.Finalizers, finalizer)
		if err := c.cfg.Client.Update(ctx, cidr); err != nil {
			return fmt.Errorf("add finalizer: %w", err)
		}
	}
	if apimeta.IsStatusConditionTrue(cidr.Status.Conditions, networkingv1.ServiceCIDRConditionReady) {
		return nil
	}
	return c.setReady(ctx, cidr, metav1.Condition{Status: metav1.ConditionTrue,
		Message: "Kubernetes Service CIDR is ready"})
}

func (c *Controller) setReady(ctx context.Context, cidr *networkingv1.ServiceCIDR, ready metav1.Condition) error {
	ready.Type = networkingv1.ServiceCIDRConditionReady
	if !apimeta.SetStatusCondition(&cidr.Status.Conditions, ready) {
		return nil
	}
	if err := c.cfg.Client.Subresource("status").Update(ctx, cidr, nil); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

// needed reports whether an address of a Service is in a ServiceCIDR and in none of the others.
func (c *Controller) needed(cidr *networkingv1.ServiceCIDR, others map[string]*networkingv1.ServiceCIDR) bool {
	ranges := prefixes(cidr)
	var rest []netip.Prefix
	for _, other := range others {
		rest = append(rest, prefixes(other)...)
	}
	for address, err := range derived.List[networkingv1.IPAddress](c.cfg.Store.Snapshot(), addresses, "") {
		if err != nil || address.Labels[networkingv1.LabelManagedBy] != builtin.AddressManager {
			continue
		}
		ip, err := netip.ParseAddr(address.Name)
		contains := func(p netip.Prefix) bool { return p.Contains(ip) }
		if err == nil && slices.ContainsFunc(ranges, contains) && !slices.ContainsFunc(rest, contains) {
			return true
		}
	}
	return false
}

func prefixes(cidr *networkingv1.ServiceCIDR) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range cidr.Spec.CIDRs {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			all = append(all, prefix.Masked())
		}
	}
	return all
}
