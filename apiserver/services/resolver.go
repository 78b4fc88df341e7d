package services

import (
	"fmt"
	"net"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/util/proxy"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// URL is the annotation of a Service that has the URL of its server: https://host[:port], without
// a path. It replaces all other addresses of the Service. The server's certificate must be valid
// for <service>.<namespace>.svc, as with every other address.
const URL = "kelson.dev/url"

// The resources that an address depends on, as in [store.Key].
const (
	Services       = "services"
	EndpointSlices = "endpointslices.discovery.k8s.io"
	Endpoints      = "endpoints"
)

// Config configures a Resolver.
type Config struct {
	Store *store.Store
	// ClusterIP resolves to cluster IPs instead of endpoints. The network must then route them, as
	// kube-proxy does.
	ClusterIP bool
	// DNS resolves to the DNS names of Services in a cluster, for programs that run in its pods or
	// with its DNS. Of the Store, only the annotation [URL] is used.
	DNS bool
}

// Resolver resolves Services. It implements the ServiceResolver of Kubernetes' libraries and is
// safe for concurrent use.
type Resolver struct {
	store     *store.Store
	clusterIP bool
	dns       bool
}

// New returns a Resolver.
func New(cfg Config) *Resolver {
	return &Resolver{store: cfg.Store, clusterIP: cfg.ClusterIP, dns: cfg.DNS}
}

// ResolveEndpoint returns the scheme, host and port of a server behind a port of a Service. With
// several ready endpoints, it picks one at random. The error is a Kubernetes NotFound if the
// Service does not exist, unless Config.DNS is set.
func (r *Resolver) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	sn := r.store.Snapshot()
	service, err := derived.Get[corev1.Service](sn, Services, namespace, name)
	if r.dns && apierrors.IsNotFound(err) {
		service, err = &corev1.Service{}, nil
	}
	if err != nil {
		return nil, err
	}
	if annotated, err := Annotated(service); annotated != nil || err != nil {
		return annotated, err
	}
	if r.dns {
		return httpsURL(net.JoinHostPort(name+"."+namespace+".svc", strconv.Itoa(int(port)))), nil
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return httpsURL(net.JoinHostPort(service.Spec.ExternalName, strconv.Itoa(int(port)))), nil
	}
	servicePort := Port(service, port)
	if servicePort == nil {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", port, name))
	}
	if r.clusterIP {
		if service.Spec.ClusterIP == "" || service.Spec.ClusterIP == corev1.ClusterIPNone {
			return nil, fmt.Errorf("cannot route to service with ClusterIP %q", service.Spec.ClusterIP)
		}
		return httpsURL(net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(port)))), nil
	}
	slices, err := Slices(sn, namespace, name)
	if err != nil {
		return nil, err
	}
	family := corev1.IPFamilyUnknown
	if len(service.Spec.IPFamilies) > 0 {
		family = service.Spec.IPFamilies[0]
	}
	address, err := proxy.RandomEndpoint(name, slices, servicePort.Name, family, nil)
	if err != nil {
		return nil, err
	}
	return httpsURL(address), nil
}

func httpsURL(host string) *url.URL { return &url.URL{Scheme: "https", Host: host} }

// Annotated returns the URL in a Service's annotation, or nil if it has none.
func Annotated(service *corev1.Service) (*url.URL, error) {
	text, ok := service.Annotations[URL]
	if !ok {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" ||
		u.User != nil {
		return nil, fmt.Errorf("annotation %s of service %q: %q must have the form https://host:port", URL,
			service.Name, text)
	}
	host := u.Host
	if u.Port() == "" {
		host = net.JoinHostPort(u.Hostname(), "443")
	}
	return httpsURL(host), nil
}

// Port returns the port of a Service with a number, or nil.
func Port(service *corev1.Service, port int32) *corev1.ServicePort {
	for i := range service.Spec.Ports {
		if p := &service.Spec.Ports[i]; p.Port == port {
			return p
		}
	}
	return nil
}

// Slices returns the EndpointSlices of a Service or, if there are none, its Endpoints in that form.
// The slice is the caller's; the objects are shared.
func Slices(sn *store.Snapshot, namespace, service string) ([]*discoveryv1.EndpointSlice, error) {
	var own []*discoveryv1.EndpointSlice
	for slice, err := range derived.List[discoveryv1.EndpointSlice](sn, EndpointSlices, namespace) {
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
	endpoints, err := derived.Get[corev1.Endpoints](sn, Endpoints, namespace, service)
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
