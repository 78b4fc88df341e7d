package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/kubernetes/pkg/apis/core"
	netutils "k8s.io/utils/net"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// Control planes that share a state allocate addresses and ports from the same ranges. Each write
// reads the allocations from the Services again. A write that allocates also updates one record of
// the ranges, in the same unit as the Service, on condition that no other write has updated it
// since. Of two concurrent allocations one therefore fails and retries. Releasing needs no record:
// the Service then holds fewer addresses or ports.

// rangesKey is the key of the record. As in Kubernetes, RangeAllocations are not served.
var rangesKey = store.Key{Resource: "rangeallocations", Name: "services"}

// shared reports whether other servers allocate from the same ranges.
func (s *services) shared() bool { return s.kinds.cfg.Store != nil && s.kinds.cfg.Store.Follows() }

// allocateShared begins a write of hub, which replaces old; old is nil for a create.
func (s *services) allocateShared(ctx context.Context, hub, old runtime.Object, dryRun bool,
	begin func(*genericregistry.Store) (genericregistry.FinishFunc, error)) ([]store.Op, func(), error) {
	registry, err := s.begin()
	if err != nil {
		return nil, nil, err
	}
	sn, err := s.kinds.cfg.Store.Fresh(ctx)
	if err != nil {
		return nil, nil, apierrors.NewServiceUnavailable("the ranges of services could not be read: " + err.Error())
	}
	before := hub.(*core.Service).Spec.DeepCopy()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mark(sn); err != nil {
		return nil, nil, err
	}
	if _, err := begin(registry); err != nil {
		return nil, nil, err
	}
	if dryRun || holdings(old).covers(holdings(hub)) {
		return nil, nil, nil
	}
	record, err := s.record(sn)
	// A retry starts from the original request, not from the addresses that this attempt chose.
	return []store.Op{record}, func() { hub.(*core.Service).Spec = *before }, err
}

// mark updates the allocators with the addresses and ports of the Services in a snapshot. The
// caller holds mu.
func (s *services) mark(sn *store.Snapshot) error {
	all := held{map[string]bool{}, map[int]bool{}}
	for svc, err := range derived.List[corev1.Service](sn, "services", "") {
		if err != nil {
			return fmt.Errorf("list services: %w", err)
		}
		all.addIPs(svc.Spec.ClusterIPs)
		for _, p := range svc.Spec.Ports {
			all.addPort(p.NodePort)
		}
		all.addPort(svc.Spec.HealthCheckNodePort)
	}
	var given []net.IP // collected first: ForEach does not allow releasing
	for _, ips := range s.ips {
		ips.ForEach(func(ip net.IP) { given = append(given, ip) })
	}
	for _, ip := range given {
		if !all.ips[ip.String()] {
			s.releaseIP(ip)
		}
	}
	var ports []int
	s.ports.ForEach(func(port int) { ports = append(ports, port) })
	for _, port := range ports {
		if !all.ports[port] {
			_ = s.ports.Release(port)
		}
	}
	// Values that are out of range or already marked are ignored.
	for ip := range all.ips {
		s.allocateIP(netutils.ParseIPSloppy(ip))
	}
	for port := range all.ports {
		_ = s.ports.Allocate(port)
	}
	return nil
}

// record returns the write of the record, on condition that it is as in the snapshot.
func (s *services) record(sn *store.Snapshot) (store.Op, error) {
	cidr := s.ips[0].CIDR() // required, but not read
	allocation := corev1.RangeAllocation{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "RangeAllocation"},
		ObjectMeta: metav1.ObjectMeta{Name: rangesKey.Name},
		Range:      cidr.String(),
	}
	data, err := json.Marshal(allocation)
	op := store.Op{Key: rangesKey, Data: data}
	if now := sn.Get(rangesKey); now != nil {
		op.Expect = now.Revision
	}
	return op, err
}
