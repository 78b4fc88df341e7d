package builtin

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
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

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
)

// services allocates cluster IPs and node ports of Services as part of their writes, and releases
// those that a Service no longer has. IPAddresses record the cluster IPs; see addressRange. The
// Services record their ports, which services reads at the first write. The rules are those of
// Kubernetes' service registry: services calls its BeginCreate and BeginUpdate with allocators. If
// other servers share the state, see allocateShared. services is safe for concurrent use.
type services struct {
	kinds *kinds
	// ranges are the configured ranges. The first is the default family.
	ranges []addressRange
	ports  portallocator.Interface
	// begin returns the registry of Services. Only its BeginCreate and BeginUpdate are used,
	// because it has no storage. It is created on first use.
	begin func() (*genericregistry.Store, error)

	mu     sync.Mutex
	random *rand.Rand
	now    *allocation // allocations of the registry's call in progress
	loaded bool        // whether ports contains the ports of the stored Services
}

func newServices(k *kinds) (*services, error) {
	ipRange, portRange := k.cfg.ServiceRange, k.cfg.NodePorts
	ipRange = cmp.Or(ipRange, DefaultServiceRange)
	portRange = cmp.Or(portRange, DefaultNodePorts)
	ranges, err := parseRanges(ipRange)
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
	s := &services{kinds: k, ranges: ranges, ports: ports, random: newRandom()}
	s.begin = sync.OnceValues(s.registry)
	return s, nil
}

// registry returns Kubernetes' own service registry over the allocators of s.
func (s *services) registry() (*genericregistry.Store, error) {
	options := generic.RESTOptions{
		StorageConfig:  &storagebackend.ConfigForResource{},
		ResourcePrefix: "services",
		Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error),
			func() runtime.Object, func() runtime.Object,
			storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
			return nil, func() {}, nil // the registry stores nothing
		},
	}
	allocators := map[core.IPFamily]ipallocator.Interface{}
	for _, r := range s.ranges {
		ipFamily := family(r.prefix.Addr())
		allocators[ipFamily] = addressAllocator{services: s, family: ipFamily}
	}
	rest, _, _, err := servicestorage.NewREST(options, family(s.ranges[0].prefix.Addr()), allocators, s.ports, nil, nil,
		nil)
	if err != nil {
		return nil, fmt.Errorf("make service registry: %w", err)
	}
	rest.Store.TableConvertor = nil // never used, and 30 KB
	return rest.Store, nil
}

func (s *services) hooks() *resource.Hooks {
	return &resource.Hooks{
		Early: true,
		OnCreate: func(ctx context.Context, hub runtime.Object, dryRun bool) ([]store.Op, func(), error) {
			return s.allocate(ctx, hub, nil, dryRun,
				func(r *genericregistry.Store) (genericregistry.FinishFunc, error) {
					return r.BeginCreate(ctx, hub, &metav1.CreateOptions{DryRun: dryRunOption(dryRun)})
				})
		},
		OnUpdate: func(ctx context.Context, hub, old runtime.Object, dryRun bool) ([]store.Op, func(), error) {
			return s.allocate(ctx, hub, old, dryRun,
				func(r *genericregistry.Store) (genericregistry.FinishFunc, error) {
					return r.BeginUpdate(ctx, hub, old.DeepCopyObject(),
						&metav1.UpdateOptions{DryRun: dryRunOption(dryRun)})
				})
		},
		OnRemove: func(_ context.Context, hub runtime.Object) ([]store.Op, error) {
			svc, _ := hub.(*core.Service)
			return addressOps(s.kinds.cfg.Store.Snapshot(), nil, svc)
		},
		// The ports of the hub are those that are stored: TestHubsEqualStoredBytes.
		AfterCommit: func(_ context.Context, hub, old runtime.Object, _ *store.Object) { s.releasePorts(hub, old) },
	}
}

func dryRunOption(dryRun bool) []string {
	if dryRun {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// allocate allocates for a write of svc, which replaces old. It returns operations for the write's
// unit, which record the allocations and releases, and a function that undoes the allocations if
// the write fails. After a successful write, the caller calls only releasePorts.
func (s *services) allocate(ctx context.Context, hub, old runtime.Object, dryRun bool,
	begin func(*genericregistry.Store) (genericregistry.FinishFunc, error)) ([]store.Op, func(), error) {
	if err := fewFamilies(hub); err != nil {
		return nil, nil, err
	}
	registry, err := s.begin()
	if err != nil {
		return nil, nil, err
	}
	svc := hub.(*core.Service)
	previous, _ := old.(*core.Service)
	before := svc.Spec.DeepCopy()
	// A retry starts from the original request, not from the values that this attempt chose.
	restore := func() { svc.Spec = *before }
	if s.shared() {
		ops, err := s.allocateShared(ctx, svc, previous, dryRun, func() error {
			_, err := begin(registry)
			return err
		})
		return ops, restore, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.load(ctx); err != nil {
		return nil, nil, err
	}
	now, err := s.newAllocation(s.kinds.cfg.Store.Snapshot(), svc.Name)
	if err != nil {
		return nil, nil, err
	}
	s.now = now
	finish, err := begin(registry)
	if err != nil {
		return nil, nil, err
	}
	undo := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.now = now
		finish(context.WithoutCancel(ctx), false)
		restore()
	}
	if dryRun {
		return nil, undo, nil
	}
	ops, err := addressOps(now.sn, svc, previous)
	return ops, undo, err
}

// fewFamilies refuses Services with far more addresses or families than the two that are valid.
// Kubernetes compares each of them with all others before it refuses them, and other writes of
// Services wait for that.
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

// load marks the ports of the stored Services as allocated. It ignores ports that are out of range
// or used twice.
func (s *services) load(ctx context.Context) error {
	if s.loaded || s.kinds.cfg.Objects == nil {
		return nil
	}
	hubs, err := s.kinds.cfg.Objects().List(ctx, s.kinds.resource("", "services"), "", labels.Everything())
	if err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	for _, hub := range hubs {
		for port := range portsOf(hub) {
			_ = s.ports.Allocate(port)
		}
	}
	s.loaded = true
	return nil
}

// releasePorts frees the ports of old that hub does not have. hub is nil if the Service was
// deleted.
func (s *services) releasePorts(hub, old runtime.Object) {
	if old == nil || s.shared() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	current := portsOf(hub)
	for port := range portsOf(old) {
		if !current[port] {
			_ = s.ports.Release(port)
		}
	}
}

// portsOf returns the node ports of a Service, or none.
func portsOf(hub runtime.Object) map[int]bool {
	ports := map[int]bool{}
	if svc, ok := hub.(*core.Service); ok && svc != nil {
		for _, p := range svc.Spec.Ports {
			ports[int(p.NodePort)] = true
		}
		ports[int(svc.Spec.HealthCheckNodePort)] = true
		delete(ports, 0)
	}
	return ports
}
