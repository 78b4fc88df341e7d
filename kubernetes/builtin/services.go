package builtin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"
	"k8s.io/kubernetes/pkg/registry/core/service/portallocator"
	servicestorage "k8s.io/kubernetes/pkg/registry/core/service/storage"
	netutils "k8s.io/utils/net"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
)

// services allocates cluster IPs and node ports of Services as part of their writes, and releases
// those that a Service no longer has. The Services themselves record the allocations; they are read
// at the first write. Kubernetes' service registry has the rules: services calls its BeginCreate
// and BeginUpdate with in-memory allocators. allocateShared is for control planes that share a
// state. services is safe for concurrent use.
type services struct {
	kinds *kinds
	// ips has an allocator for each configured range. The first is the default family.
	ips   []ipallocator.Interface
	ports portallocator.Interface
	// begin returns the registry of Services, which has no storage, for its BeginCreate and
	// BeginUpdate. It is created on first use.
	begin func() (*genericregistry.Store, error)

	mu     sync.Mutex
	loaded bool
}

func newServices(k *kinds) (*services, error) {
	ipRange, portRange := k.cfg.ServiceRange, k.cfg.NodePorts
	if ipRange == "" {
		ipRange = DefaultServiceRange
	}
	if portRange == "" {
		portRange = DefaultNodePorts
	}
	ips, err := newAllocators(ipRange)
	if err != nil {
		return nil, err
	}
	nodePorts, err := utilnet.ParsePortRange(portRange)
	if err != nil {
		return nil, fmt.Errorf("parse node port range: %w", err)
	}
	ports, err := portallocator.NewInMemory(*nodePorts)
	if err != nil {
		return nil, fmt.Errorf("make node port range: %w", err)
	}
	s := &services{kinds: k, ips: ips, ports: ports}
	s.begin = sync.OnceValues(s.registry)
	return s, nil
}

// newAllocators returns an allocator for each of the ranges, which are separated by a comma: one,
// or two of different families.
func newAllocators(ranges string) ([]ipallocator.Interface, error) {
	var all []ipallocator.Interface
	for one := range strings.SplitSeq(ranges, ",") {
		_, cidr, err := netutils.ParseCIDRSloppy(strings.TrimSpace(one))
		if err != nil {
			return nil, fmt.Errorf("parse service range: %w", err)
		}
		ips, err := ipallocator.NewInMemory(cidr)
		if err != nil {
			return nil, fmt.Errorf("make service range: %w", err)
		}
		all = append(all, ips)
	}
	if len(all) > 2 {
		return nil, errors.New("service ranges: more than two")
	}
	if len(all) == 2 && all[0].IPFamily() == all[1].IPFamily() {
		return nil, fmt.Errorf("service ranges %s: both are of %s", ranges, all[0].IPFamily())
	}
	return all, nil
}

// allocateIP marks an address as allocated, releaseIP as free. Both ignore addresses that are out
// of range or have that state already.
func (s *services) allocateIP(ip net.IP) {
	s.eachOf(ip, func(ips ipallocator.Interface) { _ = ips.Allocate(ip) })
}
func (s *services) releaseIP(ip net.IP) {
	s.eachOf(ip, func(ips ipallocator.Interface) { _ = ips.Release(ip) })
}

// eachOf calls do with the allocator of an address's family.
func (s *services) eachOf(ip net.IP, do func(ipallocator.Interface)) {
	for _, ips := range s.ips {
		if (ips.IPFamily() == core.IPv6Protocol) == netutils.IsIPv6(ip) {
			do(ips)
		}
	}
}

// registry returns Kubernetes' own service registry over the allocators of s.
func (s *services) registry() (*genericregistry.Store, error) {
	options := generic.RESTOptions{
		StorageConfig:  &storagebackend.ConfigForResource{},
		ResourcePrefix: "services",
		Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error), func() runtime.Object, func() runtime.Object,
			storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
			return nil, func() {}, nil // the registry stores nothing
		},
	}
	allocators := map[core.IPFamily]ipallocator.Interface{}
	for _, ips := range s.ips {
		allocators[ips.IPFamily()] = ips
	}
	rest, _, _, err := servicestorage.NewREST(options, s.ips[0].IPFamily(), allocators, s.ports, nil, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make service registry: %w", err)
	}
	return rest.Store, nil
}

func (s *services) hooks() *resource.Hooks {
	return &resource.Hooks{
		Early: true,
		OnCreate: func(ctx context.Context, hub runtime.Object, dryRun bool) ([]store.Op, func(), error) {
			return s.allocate(ctx, hub, nil, dryRun, func(r *genericregistry.Store) (genericregistry.FinishFunc, error) {
				return r.BeginCreate(ctx, hub, &metav1.CreateOptions{DryRun: dryRunOption(dryRun)})
			})
		},
		OnUpdate: func(ctx context.Context, hub, old runtime.Object, dryRun bool) ([]store.Op, func(), error) {
			return s.allocate(ctx, hub, old, dryRun, func(r *genericregistry.Store) (genericregistry.FinishFunc, error) {
				return r.BeginUpdate(ctx, hub, old.DeepCopyObject(), &metav1.UpdateOptions{DryRun: dryRunOption(dryRun)})
			})
		},
		AfterCommit: func(_ context.Context, hub, old runtime.Object, _ uint64) { s.release(hub, old) },
	}
}

func dryRunOption(dryRun bool) []string {
	if dryRun {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// allocate begins a write and returns the function that undoes it. A commit needs no other call:
// committing the allocation does only what release does.
func (s *services) allocate(ctx context.Context, hub, old runtime.Object, dryRun bool,
	begin func(*genericregistry.Store) (genericregistry.FinishFunc, error)) ([]store.Op, func(), error) {
	if err := fewFamilies(hub); err != nil {
		return nil, nil, err
	}
	if s.shared() {
		return s.allocateShared(ctx, hub, old, dryRun, begin)
	}
	registry, err := s.begin()
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(ctx); err != nil {
		return nil, nil, err
	}
	finish, err := begin(registry)
	if err != nil {
		return nil, nil, err
	}
	return nil, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		finish(context.WithoutCancel(ctx), false)
	}, nil
}

// fewFamilies refuses Services with far more addresses or families than the two that are valid.
// Kubernetes compares each with all others before it refuses them, while other Services wait.
func fewFamilies(hub runtime.Object) error {
	const most = 100
	service, ok := hub.(*core.Service)
	if !ok {
		return nil
	}
	var errs field.ErrorList
	if n := len(service.Spec.ClusterIPs); n > most {
		errs = append(errs, field.TooMany(field.NewPath("spec", "clusterIPs"), n, 2))
	}
	if n := len(service.Spec.IPFamilies); n > most {
		errs = append(errs, field.TooMany(field.NewPath("spec", "ipFamilies"), n, 2))
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(core.Kind("Service"), service.Name, errs)
	}
	return nil
}

// load marks the addresses and ports of the stored Services as allocated. It ignores values that
// are out of range or used twice.
func (s *services) load(ctx context.Context) error {
	if s.loaded || s.kinds.cfg.Objects == nil {
		return nil
	}
	hubs, err := s.kinds.cfg.Objects().List(ctx, s.kinds.resource("", "services"), "", labels.Everything())
	if err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	for _, hub := range hubs {
		held := holdings(hub)
		for ip := range held.ips {
			s.allocateIP(netutils.ParseIPSloppy(ip))
		}
		for port := range held.ports {
			_ = s.ports.Allocate(port)
		}
	}
	s.loaded = true
	return nil
}

// release frees what old had and hub (nil: deleted) does not have.
func (s *services) release(hub, old runtime.Object) {
	if old == nil || s.shared() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	had, has := holdings(old), holdings(hub)
	for ip := range had.ips {
		if !has.ips[ip] {
			s.releaseIP(netutils.ParseIPSloppy(ip))
		}
	}
	for port := range had.ports {
		if !has.ports[port] {
			_ = s.ports.Release(port)
		}
	}
}

// held is the set of addresses and ports of a Service.
type held struct {
	ips   map[string]bool
	ports map[int]bool
}

func holdings(hub runtime.Object) held {
	h := held{map[string]bool{}, map[int]bool{}}
	svc, ok := hub.(*core.Service)
	if !ok || svc == nil {
		return h
	}
	h.addIPs(svc.Spec.ClusterIPs)
	for _, p := range svc.Spec.Ports {
		h.addPort(p.NodePort)
	}
	h.addPort(svc.Spec.HealthCheckNodePort)
	return h
}

func (h held) addIPs(ips []string) {
	for _, ip := range ips {
		if parsed := netutils.ParseIPSloppy(ip); parsed != nil {
			h.ips[net.IP(parsed).String()] = true
		}
	}
}

func (h held) addPort(port int32) {
	if port != 0 {
		h.ports[int(port)] = true
	}
}

// covers reports whether h contains everything in other.
func (h held) covers(other held) bool {
	for ip := range other.ips {
		if !h.ips[ip] {
			return false
		}
	}
	for port := range other.ports {
		if !h.ports[port] {
			return false
		}
	}
	return true
}
