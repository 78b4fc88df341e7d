package controlplane

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/coordination"

	"kelson.dev/apiserver/authz"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/node"
)

// renewals renews the Leases of simulated nodes without requests. Each node renews its Lease four
// times in 40 seconds, so 5,000 nodes write 500 times a second, always the same two times. As
// requests, such writes are most of the work of a cluster at rest. Clients and watches see what the
// request would leave (TestRenewalsEqualRequests), but apiserver_request_total does not count it.
// It is safe for concurrent use.
type renewals struct {
	store    *store.Store
	registry *resource.Registry
	objects  func() resource.Objects

	mu sync.Mutex
	// plain has the revisions of Leases with one field manager, by the names of the nodes.
	plain map[string]uint64
}

var leases = schema.GroupResource{Group: coordination.GroupName, Resource: "leases"}

// admissionObjects are the kinds that let clients see or change the writes of others.
var admissionObjects = []string{
	"mutatingwebhookconfigurations.admissionregistration.k8s.io",
	"validatingwebhookconfigurations.admissionregistration.k8s.io",
	"mutatingadmissionpolicybindings.admissionregistration.k8s.io",
	"validatingadmissionpolicybindings.admissionregistration.k8s.io",
}

// newRenewals returns nil if the configuration lets somebody see or refuse requests of nodes: if
// requests are recorded, and with audit logs and other authorizers and plugins than the default
// ones, which permit a node to renew its own Lease.
func (p *ControlPlane) newRenewals(cfg Config) *renewals {
	others := func(names []string, known ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(known, name) })
	}
	modes, plugins := cfg.Authorization.Modes, cfg.Admission
	if p.requests != nil || cfg.Audit.records() ||
		cfg.Authorization.File != "" || others(modes, authz.ModeNode, authz.ModeRBAC) ||
		others(plugins.Enable, "NodeRestriction") || len(plugins.Disable)+len(plugins.Plugins) > 0 {
		return nil
	}
	return &renewals{store: p.store, registry: p.registry, plain: map[string]uint64{},
		objects: func() resource.Objects { return p.verbs }}
}

// errNotPlain means that a renewal would change more than two times.
var errNotPlain = errors.New("not a plain renewal")

// renew sets the renewal time of a node's Lease, and the time of the field manager that owns it. It
// returns false if it has written nothing and the node must send a request: if the Lease does not
// exist or has another holder, if a renewal changes more than these times, or if a webhook or a
// policy may match it.
func (r *renewals) renew(ctx context.Context, name string, now time.Time) bool {
	res, ok := r.registry.Current().ByName(leases)
	if !ok {
		return false
	}
	sn := r.store.Snapshot()
	for _, kind := range admissionObjects {
		if sn.Count(kind, "") > 0 {
			return false
		}
	}
	current := sn.Get(res.Key(corev1.NamespaceNodeLease, name))
	if current != nil && r.isPlain(name, current.Revision) {
		written, err := r.store.Commit(ctx, store.Op{
			Key: current.Key, Expect: current.Revision, Data: withTimes(current.Data, now),
		})
		if err == nil {
			r.setPlain(name, written[0].Revision)
			return true
		}
	}
	managers := 0
	hub, err := r.objects().Update(ctx, res, corev1.NamespaceNodeLease, name, nil, false, func(hub runtime.Object) error {
		lease, ok := hub.(*coordination.Lease)
		if !ok || lease.DeletionTimestamp != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != name {
			return errNotPlain
		}
		renewed := metav1.NewMicroTime(now)
		lease.Spec.RenewTime = &renewed
		managers = len(lease.ManagedFields)
		return renewedBy(lease.ManagedFields, node.FieldOwner, now)
	})
	if err != nil || managers != 1 {
		r.setPlain(name, 0)
		return err == nil
	}
	written := r.store.Snapshot().Get(current.Key)
	if written != nil && hub.(*coordination.Lease).ResourceVersion == strconv.FormatUint(written.Revision, 10) &&
		withTimes(written.Data, now) != nil {
		r.setPlain(name, written.Revision)
	}
	return true
}

func (r *renewals) isPlain(name string, revision uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plain[name] == revision
}

// setPlain records that a Lease is plain at a revision; 0: at none.
func (r *renewals) setPlain(name string, revision uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if revision == 0 {
		delete(r.plain, name)
		return
	}
	r.plain[name] = revision
}

// withTimes returns a stored Lease with other times, or nil if it does not have each of them once.
// Times have a fixed width. Strings in JSON can't contain the names with their quotes.
func withTimes(data []byte, now time.Time) []byte {
	data = slices.Clone(data)
	for name, value := range map[string]string{
		"renewTime": now.UTC().Format(metav1.RFC3339Micro), "time": now.UTC().Format(time.RFC3339),
	} {
		_, after, found := bytes.Cut(data, []byte(`"`+name+`":"`))
		if !found || len(after) < len(value)+1 || after[len(value)] != '"' || bytes.Contains(after, []byte(`"`+name+`":"`)) {
			return nil
		}
		copy(data[len(data)-len(after):], value)
	}
	return data
}

// renewedBy sets the time of the entry that owns the renewal time, if only this manager owns it.
func renewedBy(entries []metav1.ManagedFieldsEntry, manager string, now time.Time) error {
	found := false
	for i := range entries {
		e := &entries[i]
		if e.FieldsV1 == nil || !strings.Contains(string(e.FieldsV1.GetRawBytes()), `"f:renewTime"`) {
			continue
		}
		if found || e.Manager != manager || e.Operation != metav1.ManagedFieldsOperationUpdate || e.Subresource != "" {
			return errNotPlain
		}
		at := metav1.NewTime(now.UTC().Truncate(time.Second))
		e.Time, found = &at, true
	}
	if !found {
		return errNotPlain
	}
	// The order of the library, by which clients see the entries.
	slices.SortStableFunc(entries, func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Or(cmp.Compare(a.Operation, b.Operation), secondOf(a).Compare(secondOf(b)),
			cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.APIVersion, b.APIVersion),
			cmp.Compare(a.Subresource, b.Subresource))
	})
	return nil
}

func secondOf(e metav1.ManagedFieldsEntry) time.Time {
	if e.Time == nil {
		return time.Time{}
	}
	return e.Time.Truncate(time.Second)
}
