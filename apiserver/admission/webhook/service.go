package webhook

import (
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/util/proxy"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// resolve returns an address of a service's port: from its EndpointSlices or, if it has none, its
// Endpoints, or its external name.
func resolve(sn *store.Snapshot, namespace, name string, port int32) (string, error) {
	service, err := derived.Get[corev1.Service](sn, "services", namespace, name)
	if err != nil {
		return "", err
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return net.JoinHostPort(service.Spec.ExternalName, strconv.Itoa(int(port))), nil
	}
	portName, ok := "", false
	for _, p := range service.Spec.Ports {
		if p.Port == port {
			portName, ok = p.Name, true
			break
		}
	}
	if !ok {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", port, name))
	}
	slices, err := slicesOf(sn, namespace, name)
	if err != nil {
		return "", err
	}
	family := corev1.IPFamilyUnknown
	if len(service.Spec.IPFamilies) > 0 {
		family = service.Spec.IPFamilies[0]
	}
	return proxy.RandomEndpoint(name, slices, portName, family, nil)
}

func slicesOf(sn *store.Snapshot, namespace, service string) ([]*discoveryv1.EndpointSlice, error) {
	var own []*discoveryv1.EndpointSlice
	for slice, err := range derived.List[discoveryv1.EndpointSlice](sn, "endpointslices.discovery.k8s.io", namespace) {
		if err != nil {
			return nil, err
		}
		if slice.Labels[discoveryv1.LabelServiceName] == service {
			own = append(own, slice)
		}
	}
	if len(own) > 0 {
		return own, nil
	}
	endpoints, err := derived.Get[corev1.Endpoints](sn, "endpoints", namespace, service)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, subset := range endpoints.Subsets {
		slice := &discoveryv1.EndpointSlice{}
		for _, p := range subset.Ports {
			slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &p.Name, Port: &p.Port})
		}
		for _, address := range subset.Addresses {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address.IP}})
		}
		own = append(own, slice)
	}
	return own, nil
}
