package builtin

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/networking"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// AddressManager is the value of the label that marks the IPAddresses of Services.
const AddressManager = ipallocator.ControllerName

// ipAddressFields are the managed fields of an IPAddress as kube-apiserver creates it.
const ipAddressFields = `{"f:metadata":{"f:labels":{".":{},"f:ipaddress.kubernetes.io/ip-family":{},"f:ipaddress.kubernetes.io/managed-by":{}}},` +
	`"f:spec":{"f:parentRef":{".":{},"f:name":{},"f:namespace":{},"f:resource":{}}}}`

// NewIPAddress returns the IPAddress that belongs to an address of a Service.
func NewIPAddress(address netip.Addr, namespace, service string) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "IPAddress"},
		ObjectMeta: metav1.ObjectMeta{Name: address.String(), Labels: map[string]string{
			networkingv1.LabelIPAddressFamily: string(family(address)),
			networkingv1.LabelManagedBy:       AddressManager,
		}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services",
			Namespace: namespace, Name: service}},
	}
}

// addressOps returns operations that create IPAddresses for the addresses that only svc has, and
// delete the IPAddresses of the addresses that only old has. svc or old may be nil.
func addressOps(sn *store.Snapshot, svc, old *core.Service) ([]store.Op, error) {
	var ops []store.Op
	current, previous := addressesOf(svc), addressesOf(old)
	for _, address := range slices.SortedFunc(maps.Keys(current), netip.Addr.Compare) {
		if previous[address] {
			continue
		}
		obj := NewIPAddress(address, svc.Namespace, svc.Name)
		obj.UID, obj.CreationTimestamp = uuid.NewUUID(), metav1.Now().Rfc3339Copy()
		obj.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "kube-apiserver", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: obj.APIVersion,
			Time: &obj.CreationTimestamp, FieldsType: "FieldsV1",
			FieldsV1: &metav1.FieldsV1{Raw: []byte(ipAddressFields)},
		}}
		data, err := json.Marshal(obj)
		if err != nil {
			return nil, err
		}
		ops = append(ops, store.Op{Key: store.Key{Resource: ipAddresses, Name: obj.Name}, Data: data})
	}
	for _, address := range slices.SortedFunc(maps.Keys(previous), netip.Addr.Compare) {
		key := store.Key{Resource: ipAddresses, Name: address.String()}
		if stored := sn.Get(key); stored != nil && !current[address] && belongs(stored, old) {
			ops = append(ops, store.Op{Key: key, Expect: stored.Revision})
		}
	}
	return ops, nil
}

// belongs reports whether a stored IPAddress refers to a Service.
func belongs(stored *store.Object, svc *core.Service) bool {
	obj, err := derived.Of[networkingv1.IPAddress](stored)
	if err != nil || obj.Spec.ParentRef == nil {
		return false
	}
	ref := obj.Spec.ParentRef
	return ref.Group == "" && ref.Resource == "services" && ref.Namespace == svc.Namespace && ref.Name == svc.Name
}

// addressesOf returns the cluster IPs of a Service. An ExternalName Service has none, but it still
// contains those of its former type until the strategy prepares it for storage.
func addressesOf(svc *core.Service) map[netip.Addr]bool {
	all := map[netip.Addr]bool{}
	if svc == nil || svc.Spec.Type == core.ServiceTypeExternalName {
		return all
	}
	for _, text := range svc.Spec.ClusterIPs {
		if address, err := netip.ParseAddr(text); err == nil {
			all[address.Unmap()] = true
		}
	}
	return all
}

// needsName returns kube-apiserver's error for a Service without a name: it cannot create an
// IPAddress that refers to it.
func needsName(address netip.Addr) error {
	return apierrors.NewInvalid(networking.Kind("IPAddress"), address.String(),
		field.ErrorList{field.Required(field.NewPath("spec", "parentRef", "name"), "")})
}
