// Package ipaddresses repairs IPAddresses: each cluster IP of a Service has an IPAddress that
// refers to the Service, and each IPAddress of the service allocator refers to a Service with the
// address.
//
// Writes of Services also write their IPAddresses. The controller handles IPAddresses that users
// delete or change, and states that were written without IPAddresses. It uses the Events of
// Kubernetes' ipallocator-repair-controller.
package ipaddresses

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/builtin"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/operator/client"
	"kelson.dev/operator/events"
)

const (
	services  = "services"
	addresses = "ipaddresses.networking.k8s.io"
)

// Config configures the controller. Store and Client are required.
type Config struct {
	Store  *store.Store
	Client client.Client
	Log    *slog.Logger
}

// Controller is the controller of one control plane.
type Controller struct {
	cfg         Config
	broadcaster *events.Broadcaster
	recorder    *events.Recorder
}

// New returns a controller; call Run to start it.
func New(cfg Config) *Controller {
	broadcaster := events.New(events.Config{Client: cfg.Client, Log: cfg.Log})
	return &Controller{cfg: cfg, broadcaster: broadcaster,
		recorder: broadcaster.Recorder("ipallocator-repair-controller")}
}

// pair is an address and a Service that has it, or to which its IPAddress refers.
type pair struct {
	address netip.Addr
	service store.Key
}

// Run runs the controller until ctx ends or the store is closed.
func (c *Controller) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	defer parts.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parts.Go(func() { _ = c.broadcaster.Run(ctx) })
	return follow.Run(ctx, follow.Config[pair]{
		Name: "IP addresses", Store: c.cfg.Store, Resources: []string{services, addresses}, Log: c.cfg.Log,
		Keys: c.keys, Sync: c.sync,
	})
}

func (c *Controller) keys(obj *store.Object, add func(pair)) {
	if obj.Key.Resource == services {
		if svc, err := derived.Of[corev1.Service](obj); err == nil {
			for _, address := range clusterIPs(svc) {
				add(pair{address, obj.Key})
			}
		}
		return
	}
	address, err := netip.ParseAddr(obj.Key.Name)
	if err != nil {
		return
	}
	ip, err := derived.Of[networkingv1.IPAddress](obj)
	if err != nil {
		return
	}
	add(pair{address, parent(ip)})
	sn := c.cfg.Store.Snapshot()
	if holder(sn, pair{address, parent(ip)}) != nil || sn.Get(obj.Key) == nil {
		return
	}
	// The reference is wrong: another Service may have the address.
	for svc, err := range derived.List[corev1.Service](sn, services, "") {
		if err == nil && slices.Contains(clusterIPs(svc), address) {
			add(pair{address, store.Key{Resource: services, Namespace: svc.Namespace, Name: svc.Name}})
		}
	}
}

// clusterIPs returns the addresses of a Service.
func clusterIPs(svc *corev1.Service) []netip.Addr {
	var all []netip.Addr
	for _, text := range svc.Spec.ClusterIPs {
		if address, err := netip.ParseAddr(text); err == nil {
			all = append(all, address)
		}
	}
	return all
}

// parent returns the key of the Service to which an IPAddress refers; it is zero for another
// object.
func parent(ip *networkingv1.IPAddress) store.Key {
	ref := ip.Spec.ParentRef
	if ref == nil || ref.Group != "" || ref.Resource != services {
		return store.Key{}
	}
	return store.Key{Resource: services, Namespace: ref.Namespace, Name: ref.Name}
}

func (c *Controller) sync(ctx context.Context, key pair) (time.Duration, error) {
	sn := c.cfg.Store.Snapshot()
	var ip *networkingv1.IPAddress
	if stored := sn.Get(store.Key{Resource: addresses, Name: key.address.String()}); stored != nil {
		var err error
		if ip, err = derived.Of[networkingv1.IPAddress](stored); err != nil {
			return 0, err
		}
	}
	if svc := holder(sn, key); svc != nil {
		return 0, c.ensure(ctx, sn, svc, ip, key)
	}
	if ip == nil || parent(ip) != key.service || ip.Labels[networkingv1.LabelManagedBy] != builtin.AddressManager {
		return 0, nil // no IPAddress, one of another pair, or a client's
	}
	return c.release(ctx, sn, ip, key)
}

// holder returns the Service of a pair if it exists and has the address.
func holder(sn *store.Snapshot, key pair) *corev1.Service {
	stored := sn.Get(key.service)
	if stored == nil {
		return nil
	}
	svc, err := derived.Of[corev1.Service](stored)
	if err != nil || !slices.Contains(clusterIPs(svc), key.address) {
		return nil
	}
	return svc
}

// ensure creates the IPAddress of an address that a Service has, or replaces a wrong one.
func (c *Controller) ensure(ctx context.Context, sn *store.Snapshot, svc *corev1.Service, ip *networkingv1.IPAddress,
	key pair) error {
	want := builtin.NewIPAddress(key.address, svc.Namespace, svc.Name)
	family := want.Labels[networkingv1.LabelIPAddressFamily]
	switch {
	case ip == nil:
		c.recorder.Eventf(svc, corev1.EventTypeWarning, "ClusterIPNotAllocated",
			"Cluster IP [%s]: %s is not allocated; repairing", family, key.address)
		return c.create(ctx, want)
	case parent(ip) == key.service:
		if ip.Labels[networkingv1.LabelIPAddressFamily] == family &&
			ip.Labels[networkingv1.LabelManagedBy] == builtin.AddressManager {
			return nil
		}
	case holder(sn, pair{key.address, parent(ip)}) != nil:
		c.recorder.Eventf(svc, corev1.EventTypeWarning, "ClusterIPAlreadyAllocated",
			"Cluster IP [%s]:%s was assigned to multiple services; please recreate service", family, key.address)
		return nil
	default:
		c.recorder.Eventf(svc, corev1.EventTypeWarning, "ClusterIPNotAllocated",
			"the ClusterIP [%s]: %s for Service %s/%s has a wrong reference; repairing", family, key.address,
			svc.Namespace, svc.Name)
	}
	if err := c.delete(ctx, ip); err != nil {
		return err
	}
	return c.create(ctx, want)
}

// release deletes an IPAddress of the allocator whose Service does not have the address.
func (c *Controller) release(ctx context.Context, sn *store.Snapshot, ip *networkingv1.IPAddress,
	key pair) (time.Duration, error) {
	switch {
	case key.service == store.Key{}:
		c.recorder.Eventf(ip, corev1.EventTypeWarning, "IPAddressNotAllocated",
			"IPAddress %s appears to have been modified, not referencing a Service %v: cleaning up", ip.Name,
			ip.Spec.ParentRef)
	case sn.Get(key.service) == nil:
		// A server of an earlier release, or kube-apiserver over the same etcd, creates the
		// IPAddress before the Service.
		const grace = time.Minute
		if age := time.Since(ip.CreationTimestamp.Time); age < grace {
			return grace - age, nil
		}
		c.recorder.Eventf(ip, corev1.EventTypeWarning, "IPAddressNotAllocated",
			"IPAddress: %s for Service %s/%s appears to have leaked: cleaning up", ip.Name, key.service.Namespace,
			key.service.Name)
	default:
		c.recorder.Eventf(ip, corev1.EventTypeWarning, "IPAddressWrongReference",
			"IPAddress: %s for Service %s/%s has a wrong reference; cleaning up", ip.Name, key.service.Namespace,
			key.service.Name)
	}
	return 0, c.delete(ctx, ip)
}

func (c *Controller) create(ctx context.Context, ip *networkingv1.IPAddress) error {
	err := follow.IgnoreExists(c.cfg.Store, store.Key{Resource: addresses, Name: ip.Name}, c.cfg.Client.Create(ctx, ip))
	if err != nil {
		return fmt.Errorf("create IPAddress: %w", err)
	}
	return nil
}

// delete deletes this version of an IPAddress.
func (c *Controller) delete(ctx context.Context, ip *networkingv1.IPAddress) error {
	err := c.cfg.Client.Delete(ctx, ip.DeepCopy(),
		client.Preconditions{UID: ip.UID, ResourceVersion: ip.ResourceVersion})
	if err = follow.IgnoreGone(c.cfg.Store, store.Key{Resource: addresses, Name: ip.Name}, ip.UID, err); err != nil {
		return fmt.Errorf("delete IPAddress: %w", err)
	}
	return nil
}
