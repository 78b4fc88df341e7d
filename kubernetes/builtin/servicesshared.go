package builtin

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/core"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// Control planes that share a state allocate ports from the same range. Each write reads the ports
// from the Services again. A write that allocates also updates one record of the range, in the same
// unit as the Service, on condition that no other write has updated it since. Of two concurrent
// allocations one therefore fails and retries. Releasing ports does not need the record, because
// the next write reads the ports from the Services.

// rangesKey is the key of the record. As in Kubernetes, RangeAllocations are not served.
var rangesKey = store.Key{Resource: "rangeallocations", Name: "services"}

// shared reports whether other servers allocate from the same ranges.
func (s *services) shared() bool { return s.kinds.cfg.Store != nil && s.kinds.cfg.Store.Follows() }

// allocateShared calls begin for a write of svc, which replaces old; old is nil for a create. It
// returns the operations that record what the write allocates and releases.
func (s *services) allocateShared(ctx context.Context, svc, old *core.Service, dryRun bool,
	begin func() error) ([]store.Op, error) {
	sn, err := s.kinds.cfg.Store.Fresh(ctx)
	if err != nil {
		return nil, apierrors.NewServiceUnavailable("the ranges of services could not be read: " + err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mark(sn); err != nil {
		return nil, err
	}
	if s.now, err = s.newAllocation(sn, svc.Name); err != nil {
		return nil, err
	}
	if err := begin(); err != nil || dryRun {
		return nil, err
	}
	ops, err := addressOps(sn, svc, old)
	if err != nil {
		return nil, err
	}
	previous := portsOf(old)
	for port := range portsOf(svc) {
		if !previous[port] {
			record, err := s.record(sn)
			return append(ops, record), err
		}
	}
	return ops, nil
}

// mark updates the port allocator to the ports of the Services in a snapshot. The caller must hold
// mu.
func (s *services) mark(sn *store.Snapshot) error {
	held := map[int]bool{}
	for svc, err := range derived.List[corev1.Service](sn, "services", "") {
		if err != nil {
			return fmt.Errorf("list services: %w", err)
		}
		for _, p := range svc.Spec.Ports {
			held[int(p.NodePort)] = true
		}
		held[int(svc.Spec.HealthCheckNodePort)] = true
	}
	var given []int // collected first: ForEach does not allow releasing
	s.ports.ForEach(func(port int) { given = append(given, port) })
	for _, port := range given {
		if !held[port] {
			_ = s.ports.Release(port)
		}
	}
	for port := range held {
		_ = s.ports.Allocate(port) // ignores ports that are out of range or already marked
	}
	return nil
}

// record returns the write of the record, on condition that the record has not changed since the
// snapshot.
func (s *services) record(sn *store.Snapshot) (store.Op, error) {
	allocation := corev1.RangeAllocation{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "RangeAllocation"},
		ObjectMeta: metav1.ObjectMeta{Name: rangesKey.Name},
		Range:      s.ranges[0].prefix.String(), // required, but not read
	}
	data, err := json.Marshal(allocation)
	op := store.Op{Key: rangesKey, Data: data}
	if now := sn.Get(rangesKey); now != nil {
		op.Expect = now.Revision
	}
	return op, err
}
