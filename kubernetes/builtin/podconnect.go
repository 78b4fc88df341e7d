package builtin

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/kubelet/client"
	podrest "k8s.io/kubernetes/pkg/registry/core/pod/rest"

	"kelson.dev/apiserver/inprocess"
	"kelson.dev/apiserver/resource"
)

// Node is a node that runs in this process. It serves a kubelet's HTTP API without a network.
type Node interface {
	http.Handler
	// Dial connects to a port of a pod of the node.
	Dial(ctx context.Context, pod *corev1.Pod, port uint16) (net.Conn, error)
}

// connector is a subresource of Kubernetes that serves connections itself.
type connector interface {
	upstream.Connecter
	New() runtime.Object
}

// podConnections returns the subresources that connect to a container through its node. Kubernetes'
// own code translates between the client's and the kubelet's SPDY or WebSocket connections. It uses
// the authorizer for connections that clients open with GET: they need the permission to create,
// like those opened with POST.
func (k *kinds) podConnections() []resource.Subresource {
	return []resource.Subresource{
		k.stream("attach", "PodAttachOptions", func(p *core.Pod) connector {
			return &podrest.AttachREST{Store: onePod{p}, KubeletConn: kubelets{k}, Authorizer: k.authorizer()}
		}),
		k.stream("exec", "PodExecOptions", func(p *core.Pod) connector {
			return &podrest.ExecREST{Store: onePod{p}, KubeletConn: kubelets{k}, Authorizer: k.authorizer()}
		}),
		k.stream("portforward", "PodPortForwardOptions", func(p *core.Pod) connector {
			return &podrest.PortForwardREST{Store: onePod{p}, KubeletConn: kubelets{k}, Authorizer: k.authorizer()}
		}),
	}
}

func (k *kinds) stream(name, kind string, connectorOf func(*core.Pod) connector) resource.Subresource {
	return resource.Subresource{
		Name: name, GVK: schema.GroupVersionKind{Version: "v1", Kind: kind}, Verbs: []string{"create", "get"},
		ConnectVerbs: []string{http.MethodGet, http.MethodPost},
		ConnectOptions: func(query url.Values) (runtime.Object, error) {
			return connectOptions(connectorOf(nil).New(), query)
		},
		Connect: func(ctx context.Context, req *resource.Request, obj runtime.Object) (http.Handler, error) {
			p, ok := obj.(*core.Pod)
			if !ok {
				return nil, fmt.Errorf("%s: not a pod: %T", name, obj)
			}
			respond := &responder{fail: req.Fail}
			handler, err := connectorOf(p).Connect(ctx, req.Name, req.Options, respond)
			if err != nil {
				return nil, err
			}
			return respond.before(handler), nil
		},
	}
}

// connectOptions decodes the options of a connection from its query.
func connectOptions(opts runtime.Object, query url.Values) (runtime.Object, error) {
	if err := legacyscheme.ParameterCodec.DecodeParameters(query, corev1.SchemeGroupVersion, opts); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return opts, nil
}

// responder writes the error of a handler with the writer of its request.
type responder struct {
	fail func(http.ResponseWriter, *http.Request, error)
	w    http.ResponseWriter
	req  *http.Request
}

func (r *responder) Object(code int, _ runtime.Object) { r.w.WriteHeader(code) }
func (r *responder) Error(err error)                   { r.fail(r.w, r.req, err) }

func (r *responder) before(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.w, r.req = w, req
		h.ServeHTTP(w, req)
	})
}

// kubelets returns how to connect to the kubelet of a node.
type kubelets struct{ *kinds }

// kubeletPort is the default port of kubelets. Nodes that run in this process do not listen on it.
const kubeletPort = 10250

// GetConnectionInfo returns the transport to a node's kubelet. Connections to nodes in this process
// end with ctx.
func (k kubelets) GetConnectionInfo(ctx context.Context, name types.NodeName) (*client.ConnectionInfo, error) {
	n, ok := k.node(string(name))
	if !ok {
		return k.remoteKubelet(ctx, name)
	}
	transport := dialTransport(func(context.Context, string) (net.Conn, error) { return inprocess.Dial(ctx, n), nil })
	return &client.ConnectionInfo{
		Scheme: "http", Hostname: string(name), Port: strconv.Itoa(kubeletPort),
		Transport: transport, InsecureSkipTLSVerifyTransport: transport,
	}, nil
}

func (k *kinds) node(name string) (Node, bool) {
	if k.cfg.Node == nil {
		return nil, false
	}
	return k.cfg.Node(name)
}

// dialTransport returns a transport that opens a new connection for each request.
func dialTransport(dial func(ctx context.Context, port string) (net.Conn, error)) *http.Transport {
	return &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			return dial(ctx, port)
		}}
}
