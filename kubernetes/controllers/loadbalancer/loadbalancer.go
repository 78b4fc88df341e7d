// Package loadbalancer gives Services of type LoadBalancer addresses from a pool, as the service
// controller of a cloud would. Nothing listens on the addresses.
//
// It follows that controller's protocol: the finalizer
// service.kubernetes.io/load-balancer-cleanup, the Events EnsuringLoadBalancer and
// EnsuredLoadBalancer, and the status with one address for each of the Service's IP families. It
// leaves Services with a loadBalancerClass to other implementations. spec.loadBalancerIP selects
// an address of the pool. The statuses of the Services are the only record of which addresses are
// taken.
package loadbalancer

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/operator/client"
	"kelson.dev/operator/events"
)

const (
	services  = "services"
	finalizer = "service.kubernetes.io/load-balancer-cleanup"
)

// Config configures the controller. Store, Client and Pool are required.
type Config struct {
	Store  *store.Store
	Client client.Client
	// Pool has the addresses: at most one prefix for each IP family. The first address of a
	// prefix, and the last of an IPv4 prefix, are not used, unless the prefix has at most two
	// addresses.
	Pool []netip.Prefix
	Log  *slog.Logger
}

// ParsePool parses one CIDR, or two of different families separated by a comma.
func ParsePool(s string) ([]netip.Prefix, error) {
	var pool []netip.Prefix
	for text := range strings.SplitSeq(s, ",") {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("load balancer range %q: must be a CIDR such as 192.0.2.0/24", text)
		}
		if prefix != prefix.Masked() {
			return nil, fmt.Errorf("load balancer range %q: must be %s", text, prefix.Masked())
		}
		if slices.ContainsFunc(pool, func(p netip.Prefix) bool { return p.Addr().Is4() == prefix.Addr().Is4() }) {
			return nil, fmt.Errorf("load balancer range %q: must have one CIDR for each IP family at most", s)
		}
		pool = append(pool, prefix)
	}
	return pool, nil
}

// Controller assigns the addresses of one control plane.
type Controller struct {
	cfg         Config
	broadcaster *events.Broadcaster
	recorder    *events.Recorder
}

// New returns a controller; call Run to start it.
func New(cfg Config) *Controller {
	broadcaster := events.New(events.Config{Client: cfg.Client, Log: cfg.Log})
	return &Controller{cfg: cfg, broadcaster: broadcaster, recorder: broadcaster.Recorder("service-controller")}
}

// Run runs the controller until ctx ends or the store is closed. Services are processed one at a
// time, so that no address is assigned twice.
func (c *Controller) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	defer parts.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parts.Go(func() { _ = c.broadcaster.Run(ctx) })
	return follow.Run(ctx, follow.Config[store.Key]{
		Name: "load balancers", Store: c.cfg.Store, Resources: []string{services}, Log: c.cfg.Log, Keys: c.keys,
		Sync: c.sync,
	})
}

// keys adds the Service, and the Services that wait for an address, because it may have released
// one.
func (c *Controller) keys(obj *store.Object, add func(store.Key)) {
	service, err := derived.Of[corev1.Service](obj)
	if err != nil || !wantsAddress(service) && !slices.Contains(service.Finalizers, finalizer) {
		return
	}
	add(obj.Key)
	sn := c.cfg.Store.Snapshot()
	if now := sn.Get(obj.Key); now != nil && now.Revision == obj.Revision && wantsAddress(service) {
		return // the Service keeps its addresses
	}
	for other, err := range derived.List[corev1.Service](sn, services, "") {
		if err == nil && wantsAddress(other) && len(other.Status.LoadBalancer.Ingress) == 0 {
			add(store.Key{Resource: services, Namespace: other.Namespace, Name: other.Name})
		}
	}
}

// wantsAddress reports whether the Service wants an address of the pool.
func wantsAddress(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.LoadBalancerClass == nil &&
		s.DeletionTimestamp == nil
}

func (c *Controller) sync(ctx context.Context, key store.Key) (time.Duration, error) {
	sn := c.cfg.Store.Snapshot()
	service, err := derived.Get[corev1.Service](sn, services, key.Namespace, key.Name)
	if err != nil {
		return 0, client.IgnoreNotFound(err)
	}
	if wantsAddress(service) {
		err = c.ensure(ctx, sn, service)
	} else if slices.Contains(service.Finalizers, finalizer) {
		err = c.remove(ctx, service)
	}
	return 0, follow.IgnoreGone(c.cfg.Store, key, service.UID, err)
}

// ensure assigns the addresses that the Service lacks.
func (c *Controller) ensure(ctx context.Context, sn *store.Snapshot, service *corev1.Service) error {
	wanted, err := c.assign(sn, service)
	if err != nil {
		c.recorder.Event(service, corev1.EventTypeWarning, "SyncLoadBalancerFailed",
			fmt.Sprintf("Error syncing load balancer: failed to ensure load balancer: %v", err))
		return nil // tried again when an address is freed or the Service changes
	}
	if slices.Equal(wanted, addresses(service)) {
		return nil
	}
	c.recorder.Event(service, corev1.EventTypeNormal, "EnsuringLoadBalancer", "Ensuring load balancer")
	service = service.DeepCopy()
	if !slices.Contains(service.Finalizers, finalizer) {
		// Like Kubernetes' service controller, this one may write only the status, whose writes can
		// change metadata too.
		service.Finalizers = append(service.Finalizers, finalizer)
	}
	service.Status.LoadBalancer.Ingress = nil
	for _, address := range wanted {
		service.Status.LoadBalancer.Ingress = append(service.Status.LoadBalancer.Ingress,
			corev1.LoadBalancerIngress{IP: address.String(), IPMode: new(corev1.LoadBalancerIPModeVIP)})
	}
	if err := c.cfg.Client.Subresource("status").Update(ctx, service, nil); err != nil {
		return fmt.Errorf("write load balancer status: %w", err)
	}
	c.recorder.Event(service, corev1.EventTypeNormal, "EnsuredLoadBalancer", "Ensured load balancer")
	return nil
}

// remove frees the addresses of a Service that is being deleted or has another type.
func (c *Controller) remove(ctx context.Context, service *corev1.Service) error {
	c.recorder.Event(service, corev1.EventTypeNormal, "DeletingLoadBalancer", "Deleting load balancer")
	service = service.DeepCopy()
	if len(service.Status.LoadBalancer.Ingress) > 0 && service.Spec.LoadBalancerClass == nil {
		service.Status.LoadBalancer.Ingress = nil
	}
	service.Finalizers = slices.DeleteFunc(service.Finalizers, func(f string) bool { return f == finalizer })
	if err := c.cfg.Client.Subresource("status").Update(ctx, service, nil); err != nil {
		return fmt.Errorf("clear load balancer status: %w", err)
	}
	c.recorder.Event(service, corev1.EventTypeNormal, "DeletedLoadBalancer", "Deleted load balancer")
	return nil
}
