package builtin

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/proxy"
	endpoints "k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	netutils "k8s.io/utils/net"

	"kelson.dev/apiserver/resource"
)

// proxied returns the proxy subresource of a kind. locate returns the destination of a request and
// the transport to it. Its runtime.Object is nil for Services.
func (k *kinds) proxied(kind, what string, options func() runtime.Object,
	locate func(context.Context, *resource.Request, runtime.Object) (*url.URL, http.RoundTripper,
		error)) resource.Subresource {
	return resource.Subresource{
		Name: "proxy", GVK: schema.GroupVersionKind{Version: "v1", Kind: kind},
		Verbs: []string{"create", "delete", "get", "patch", "update"},
		ConnectVerbs: []string{
			http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead,
			http.MethodOptions,
		},
		// The name in the path is "name", "name:port" or "scheme:name:port".
		Object: func(id string) (string, error) {
			_, name, _, ok := utilnet.SplitSchemeNamePort(id)
			if !ok {
				return "", apierrors.NewBadRequest(fmt.Sprintf("invalid %s request %q", what, id))
			}
			return name, nil
		},
		ConnectOptions: func(query url.Values) (runtime.Object, error) { return connectOptions(options(), query) },
		Connect: func(ctx context.Context, req *resource.Request, obj runtime.Object) (http.Handler, error) {
			location, transport, err := locate(ctx, req, obj)
			if err != nil {
				return nil, err
			}
			// NewUpgradeAwareHandler panics if it cannot parse the location.
			if _, err := url.Parse(location.String()); err != nil {
				return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid %s request %q", what, req.Name))
			}
			location.Path = utilnet.JoinPreservingTrailingSlash(location.Path, proxyPath(req.Options))
			respond := &responder{fail: req.Fail}
			return respond.before(proxy.NewUpgradeAwareHandler(location, transport, true, false,
				proxy.NewErrorResponder(respond))), nil
		},
	}
}

func proxyPath(options runtime.Object) string {
	switch o := options.(type) {
	case *core.PodProxyOptions:
		return o.Path
	case *core.ServiceProxyOptions:
		return o.Path
	case *core.NodeProxyOptions:
		return o.Path
	}
	return ""
}

func (k *kinds) podProxy() resource.Subresource {
	return k.proxied("PodProxyOptions", "pod", func() runtime.Object { return &core.PodProxyOptions{} },
		func(ctx context.Context, req *resource.Request, obj runtime.Object) (*url.URL, http.RoundTripper, error) {
			p := obj.(*core.Pod)
			scheme, _, port, _ := utilnet.SplitSchemeNamePort(req.Name)
			for i := 0; port == "" && i < len(p.Spec.Containers); i++ {
				if ports := p.Spec.Containers[i].Ports; len(ports) > 0 {
					port = strconv.Itoa(int(ports[0].ContainerPort))
				}
			}
			transport, err := k.toPod(ctx, p)
			if err != nil {
				return nil, nil, err
			}
			if transport == nil {
				return pod.ResourceLocation(ctx, onePod{p}, toNetwork(), req.Name)
			}
			return &url.URL{Scheme: scheme, Host: hostPort(p.Status.PodIPs[0].IP, port)}, transport, nil
		})
}

func hostPort(ip, port string) string {
	if port != "" {
		return net.JoinHostPort(ip, port)
	}
	if netutils.IsIPv6String(ip) {
		return "[" + ip + "]"
	}
	return ip
}

// toPod returns a transport to a pod whose node runs in this process; nil if it does not.
func (k *kinds) toPod(ctx context.Context, p *core.Pod) (*http.Transport, error) {
	n, ok := k.node(p.Spec.NodeName)
	if !ok {
		return nil, nil
	}
	if len(p.Status.PodIPs) == 0 {
		return nil, apierrors.NewBadRequest("address not allowed")
	}
	versioned := &corev1.Pod{}
	if err := Scheme().Convert(p.DeepCopy(), versioned, nil); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	transport := dialTransport(func(dialing context.Context, port string) (net.Conn, error) {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("port %q: %w", port, err)
		}
		conn, err := n.Dial(dialing, versioned, uint16(number))
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { conn.Close() })
		return conn, nil
	})
	transport.TLSClientConfig = anyCertificate()
	return transport, nil
}

// toNetwork returns a transport to pods on other machines.
func toNetwork() *http.Transport {
	return &http.Transport{DisableKeepAlives: true, DialContext: dial, TLSClientConfig: anyCertificate(),
		TLSHandshakeTimeout: maxHandshake}
}

// anyCertificate accepts every certificate, as kube-apiserver does: certificates of pods are not
// issued for their addresses.
func anyCertificate() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// serviceProxy returns the proxy subresource of Services. As in kube-apiserver, only the
// EndpointSlices need to exist, and the Service only if the request names one of its ports by
// number.
func (k *kinds) serviceProxy() resource.Subresource {
	sub := k.proxied("ServiceProxyOptions", "service", func() runtime.Object { return &core.ServiceProxyOptions{} },
		func(ctx context.Context, req *resource.Request, _ runtime.Object) (*url.URL, http.RoundTripper, error) {
			scheme, name, port, _ := utilnet.SplitSchemeNamePort(req.Name)
			if number, err := strconv.ParseInt(port, 10, 64); err == nil {
				if port, err = portName(ctx, req, name, number); err != nil {
					return nil, nil, err
				}
			}
			slices, err := k.endpointSlices(ctx, req, name)
			if err != nil {
				return nil, nil, err
			}
			pods := map[string]*core.Pod{}
			host, err := endpoints.RandomEndpoint(name, slices, port, corev1.IPv4Protocol,
				func(ep *discoveryv1.Endpoint) bool {
					p := k.endpointPod(ctx, req, ep)
					if p != nil {
						pods[ep.Addresses[0]] = p
					}
					return p != nil
				})
			if err != nil {
				return nil, nil, err
			}
			location := &url.URL{Scheme: scheme, Host: host}
			if p := pods[location.Hostname()]; p != nil {
				if transport, err := k.toPod(ctx, p); err != nil || transport != nil {
					return location, transport, err
				}
			}
			return location, toNetwork(), nil
		})
	named := sub.Object
	sub.Object = func(id string) (string, error) {
		_, err := named(id)
		return "", err // the object is not loaded
	}
	return sub
}

// portName returns the name of a service's port.
func portName(ctx context.Context, req *resource.Request, service string, number int64) (string, error) {
	hub, err := req.Objects.Get(ctx, req.Resource, req.Namespace, service)
	if err != nil {
		return "", err
	}
	for _, p := range hub.(*core.Service).Spec.Ports {
		if int64(p.Port) == number {
			return p.Name, nil
		}
	}
	return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", number, service))
}

func (k *kinds) endpointSlices(ctx context.Context, req *resource.Request,
	service string) ([]*discoveryv1.EndpointSlice, error) {
	hubs, err := req.Objects.List(ctx, k.resource("discovery.k8s.io", "endpointslices"), req.Namespace,
		labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service}))
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if len(hubs) == 0 {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", service))
	}
	slices := make([]*discoveryv1.EndpointSlice, len(hubs))
	for i, hub := range hubs {
		slices[i] = &discoveryv1.EndpointSlice{}
		if err := Scheme().Convert(hub, slices[i], nil); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
	}
	return slices, nil
}

// endpointPod returns the pod of an endpoint, or nil if the pod does not exist or does not have the
// endpoint's address. Without this check, an EndpointSlice could direct the proxy to any address.
func (k *kinds) endpointPod(ctx context.Context, req *resource.Request, ep *discoveryv1.Endpoint) *core.Pod {
	if ep.TargetRef == nil || ep.TargetRef.Namespace != req.Namespace || len(ep.Addresses) == 0 {
		return nil
	}
	hub, err := req.Objects.Get(ctx, k.resource("", "pods"), req.Namespace, ep.TargetRef.Name)
	if err != nil {
		return nil
	}
	p := hub.(*core.Pod)
	for _, ip := range p.Status.PodIPs {
		if ip.IP == ep.Addresses[0] {
			return p
		}
	}
	return nil
}

func (k *kinds) nodeProxy() resource.Subresource {
	return k.proxied("NodeProxyOptions", "node", func() runtime.Object { return &core.NodeProxyOptions{} },
		func(ctx context.Context, req *resource.Request, obj runtime.Object) (*url.URL, http.RoundTripper, error) {
			_, name, port, _ := utilnet.SplitSchemeNamePort(req.Name)
			if _, ok := k.node(name); !ok {
				return node.ResourceLocation(nil, kubelets{k}, toNetwork(), ctx, req.Name)
			}
			info, err := kubelets{k}.GetConnectionInfo(ctx, types.NodeName(name))
			if err != nil {
				return nil, nil, err
			}
			if port != "" && port != info.Port {
				// Nodes in this process have an address of this machine.
				return nil, nil, apierrors.NewBadRequest("address not allowed")
			}
			return &url.URL{Scheme: info.Scheme, Host: net.JoinHostPort(info.Hostname, info.Port)}, info.Transport, nil
		})
}
