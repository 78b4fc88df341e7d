package builtin

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// The addresses of Services are allocated from the ServiceCIDRs that are ready. An address is free
// if no IPAddress has its name, so the stored objects are the only record of allocations. The write
// of a Service creates its IPAddresses in the same unit. If two writes choose the same address, one
// fails and is retried.

// DefaultServiceCIDR is the name of the ServiceCIDR that has the configured ranges.
const DefaultServiceCIDR = "kubernetes"

const (
	serviceCIDRs = "servicecidrs.networking.k8s.io"
	ipAddresses  = "ipaddresses.networking.k8s.io"
)

// addressRange is a CIDR from which addresses are allocated. Like Kubernetes, it reserves its first
// addresses for clients that request a specific one, and assigns them to other clients only if all
// other addresses are taken.
type addressRange struct {
	prefix      netip.Prefix
	first, last netip.Addr
	reserved    uint64 // how many addresses, beginning with first, are reserved
	size        uint64
}

func parseRange(text string) (addressRange, error) {
	_, parsed, err := net.ParseCIDR(text)
	if err != nil {
		return addressRange{}, err
	}
	prefix, err := netip.ParsePrefix(parsed.String())
	if err != nil {
		return addressRange{}, err
	}
	bits := prefix.Addr().BitLen() - prefix.Bits()
	if bits > 64 {
		return addressRange{}, fmt.Errorf("shortest allowed prefix length for service CIDR is 64, got %d",
			prefix.Bits())
	}
	// The network address and the broadcast address of IPv4 are not allocated.
	r := addressRange{prefix: prefix, first: prefix.Addr().Next()}
	most := uint64(1)<<bits - 1 // correct for 64 bits too, because the shift then results in 0
	if prefix.Addr().Is4() && most > 0 {
		most--
	}
	r.last, r.size = plus(prefix.Addr(), most), most
	// As in Kubernetes, one sixteenth of the addresses is reserved, at least 16 and at most 256.
	if total := most + 1; bits > 4 {
		r.reserved = min(max(total/16, 16), 256)
	}
	return r, nil
}

// plus returns the address n after another address. It changes only the last 64 bits.
func plus(a netip.Addr, n uint64) netip.Addr {
	if a.Is4() {
		b := a.As4()
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(n))
		return netip.AddrFrom4(b)
	}
	b := a.As16()
	binary.BigEndian.PutUint64(b[8:], binary.BigEndian.Uint64(b[8:])+n)
	return netip.AddrFrom16(b)
}

// holds reports whether an address belongs to the addresses that the range can allocate.
func (r addressRange) holds(a netip.Addr) bool {
	return !a.Less(r.first) && !r.last.Less(a)
}

// free returns a free address: a random one that is not reserved, or a reserved one.
func (r addressRange) free(random *rand.Rand, taken func(netip.Addr) bool) (netip.Addr, bool) {
	pick := func(from, count uint64) (netip.Addr, bool) {
		if count == 0 {
			return netip.Addr{}, false
		}
		start := random.Uint64N(count)
		for i := range count {
			if a := plus(r.first, from+(start+i)%count); !taken(a) {
				return a, true
			}
		}
		return netip.Addr{}, false
	}
	if r.size < r.reserved {
		return pick(0, r.size)
	}
	if a, ok := pick(r.reserved, r.size-r.reserved); ok {
		return a, true
	}
	return pick(0, r.reserved)
}

// parseRanges parses the configured ranges: one CIDR, or two of different families, separated by a
// comma.
func parseRanges(text string) ([]addressRange, error) {
	var all []addressRange
	for one := range strings.SplitSeq(text, ",") {
		r, err := parseRange(strings.TrimSpace(one))
		if err != nil {
			return nil, fmt.Errorf("parse service range: %w", err)
		}
		all = append(all, r)
	}
	if len(all) > 2 {
		return nil, errors.New("service ranges: more than two")
	}
	if len(all) == 2 && all[0].prefix.Addr().Is4() == all[1].prefix.Addr().Is4() {
		return nil, fmt.Errorf("service ranges %s: both are of %s", text, family(all[0].prefix.Addr()))
	}
	return all, nil
}

func family(a netip.Addr) core.IPFamily {
	if a.Is4() {
		return core.IPv4Protocol
	}
	return core.IPv6Protocol
}

// allocation records what one write of a Service allocates. Kubernetes' service registry calls the
// methods of its allocators.
type allocation struct {
	sn      *store.Snapshot
	service string // name of the Service
	ranges  []addressRange
	given   map[netip.Addr]bool
	random  *rand.Rand
}

// newAllocation returns an allocation from the ServiceCIDRs of a snapshot, or from the configured
// ranges if the default one does not exist.
func (s *services) newAllocation(sn *store.Snapshot, service string) (*allocation, error) {
	a := &allocation{sn: sn, service: service, ranges: s.ranges, given: map[netip.Addr]bool{}, random: s.random}
	if sn.Get(store.Key{Resource: serviceCIDRs, Name: DefaultServiceCIDR}) == nil {
		return a, nil
	}
	a.ranges = nil
	for cidr, err := range derived.List[networkingv1.ServiceCIDR](sn, serviceCIDRs, "") {
		if err != nil {
			return nil, fmt.Errorf("list ServiceCIDRs: %w", err)
		}
		if cidr.DeletionTimestamp != nil || !apimeta.IsStatusConditionTrue(cidr.Status.Conditions,
			networkingv1.ServiceCIDRConditionReady) {
			continue
		}
		for _, text := range cidr.Spec.CIDRs {
			if r, err := parseRange(text); err == nil { // validated when it was created
				a.ranges = append(a.ranges, r)
			}
		}
	}
	return a, nil
}

func (a *allocation) taken(address netip.Addr) bool {
	return a.given[address] || a.sn.Get(store.Key{Resource: ipAddresses, Name: address.String()}) != nil
}

func (a *allocation) give(address netip.Addr) error {
	if a.service == "" {
		return needsName(address)
	}
	a.given[address] = true
	return nil
}

// addressAllocator allocates the addresses of one family for the allocation in progress.
type addressAllocator struct {
	services *services
	family   core.IPFamily
	dry      bool
}

var _ ipallocator.Interface = addressAllocator{}

// Allocate implements ipallocator.Interface.
func (f addressAllocator) Allocate(ip net.IP) error {
	address, ok := netip.AddrFromSlice(ip)
	if address = address.Unmap(); !ok || family(address) != f.family {
		return ipallocator.ErrMismatchedNetwork
	}
	now := f.services.now
	i := slices.IndexFunc(now.ranges, func(r addressRange) bool { return r.prefix.Contains(address) })
	switch {
	case i < 0 && f.dry: // as in Kubernetes, where one range reports the error
		if i = slices.IndexFunc(now.ranges, func(r addressRange) bool {
			return family(r.prefix.Addr()) == f.family
		}); i >= 0 {
			return &ipallocator.ErrNotInRange{IP: ip, ValidRange: now.ranges[i].prefix.String()}
		}
		return ipallocator.ErrMismatchedNetwork
	case i < 0:
		return ipallocator.ErrMismatchedNetwork
	case !now.ranges[i].holds(address):
		return &ipallocator.ErrNotInRange{IP: ip, ValidRange: now.ranges[i].prefix.String()}
	case f.dry:
		return nil // as in Kubernetes
	case now.taken(address):
		return ipallocator.ErrAllocated
	}
	return now.give(address)
}

// AllocateNext implements ipallocator.Interface.
func (f addressAllocator) AllocateNext() (net.IP, error) {
	now := f.services.now
	for _, r := range now.ranges {
		if family(r.prefix.Addr()) != f.family {
			continue
		}
		if f.dry {
			return r.prefix.Addr().AsSlice(), nil // as in Kubernetes: the network's address
		}
		if address, ok := r.free(now.random, now.taken); ok {
			return address.AsSlice(), now.give(address)
		}
	}
	return nil, ipallocator.ErrFull
}

// Release implements ipallocator.Interface. It releases addresses that this allocation assigned.
// The unit of an update or a delete deletes the IPAddresses that the write releases.
func (f addressAllocator) Release(ip net.IP) error {
	if address, ok := netip.AddrFromSlice(ip); ok && !f.dry {
		delete(f.services.now.given, address.Unmap())
	}
	return nil
}

// Has implements ipallocator.Interface.
func (f addressAllocator) Has(ip net.IP) bool {
	address, ok := netip.AddrFromSlice(ip)
	return ok && f.services.now.taken(address.Unmap())
}

// CIDR implements ipallocator.Interface. It returns an empty CIDR, as Kubernetes' allocator over
// several ServiceCIDRs does.
func (f addressAllocator) CIDR() net.IPNet { return net.IPNet{} }

// IPFamily implements ipallocator.Interface.
func (f addressAllocator) IPFamily() core.IPFamily { return f.family }

// DryRun implements ipallocator.Interface.
func (f addressAllocator) DryRun() ipallocator.Interface {
	f.dry = true
	return f
}

// ForEach implements ipallocator.Interface. The service registry does not call it.
func (f addressAllocator) ForEach(func(net.IP)) {}

// Destroy implements ipallocator.Interface.
func (f addressAllocator) Destroy() {}

// EnableMetrics implements ipallocator.Interface.
func (f addressAllocator) EnableMetrics() {}

// newRandom returns the random source for a control plane's addresses. In tests in virtual time, it
// is the same in every run.
func newRandom() *rand.Rand {
	return rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
}
