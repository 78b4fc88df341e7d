package builtin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/kubelet/client"
	nodeutil "k8s.io/kubernetes/pkg/util/node"
)

// Kubelets configures how this server calls the kubelets of nodes that do not run in this process.
// The fields correspond to kube-apiserver's flags --kubelet-*.
type Kubelets struct {
	// AddressTypes are types of node addresses, preferred types first. nil means
	// DefaultKubeletAddressTypes.
	AddressTypes []corev1.NodeAddressType
	// Port is the port of nodes whose status does not report one; 0 means 10250.
	Port uint16
	// Certificate returns the client certificate that identifies this server to kubelets. nil: it
	// presents none.
	Certificate func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
	// Authorities verify the serving certificates of kubelets. nil: all certificates are accepted,
	// as kube-apiserver does by default, because most kubelets sign their own.
	Authorities *x509.CertPool
}

// DefaultKubeletAddressTypes returns the address types that kube-apiserver prefers by default.
func DefaultKubeletAddressTypes() []corev1.NodeAddressType {
	return []corev1.NodeAddressType{corev1.NodeHostName, corev1.NodeInternalDNS, corev1.NodeInternalIP,
		corev1.NodeExternalDNS, corev1.NodeExternalIP}
}

// withDefaults returns the configuration with defaults in place of zero values.
func (c Kubelets) withDefaults() Kubelets {
	if c.AddressTypes == nil {
		c.AddressTypes = DefaultKubeletAddressTypes()
	}
	if c.Port == 0 {
		c.Port = kubeletPort
	}
	return c
}

// transport returns a transport to a kubelet. It opens a connection for each request, so that no
// connection outlives the control plane. It uses HTTP/1.1, which exec and port-forward need.
func (c Kubelets) transport(verify bool) *http.Transport {
	settings := &tls.Config{GetClientCertificate: c.Certificate, RootCAs: c.Authorities,
		InsecureSkipVerify: !verify || c.Authorities == nil}
	return &http.Transport{DisableKeepAlives: true, DialContext: dial, TLSClientConfig: settings,
		TLSHandshakeTimeout: maxHandshake}
}

// maxHandshake is how long a TLS handshake with a kubelet or a pod may take.
const maxHandshake = 10 * time.Second

// dial connects to a kubelet or a pod, within the time that kube-apiserver allows. Streams such as
// logs have no deadline that would end an attempt.
var dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext

// remoteKubelet returns how to connect to the kubelet of a node that does not run in this process.
// It calls the port in the node's status at the first address of a preferred type.
func (k kubelets) remoteKubelet(ctx context.Context, name types.NodeName) (*client.ConnectionInfo, error) {
	if k.cfg.Objects == nil {
		return nil, errors.New("connect to kubelet: Config.Objects is nil")
	}
	hub, err := k.cfg.Objects().Get(ctx, k.resource("", "nodes"), "", string(name))
	if err != nil {
		return nil, err
	}
	node := &corev1.Node{}
	if err := Scheme().Convert(hub.(*core.Node), node, nil); err != nil {
		return nil, err
	}
	c := k.cfg.Kubelets.withDefaults()
	host, err := nodeutil.GetPreferredNodeAddress(node, c.AddressTypes)
	if err != nil {
		return nil, err
	}
	port := c.Port
	if reported := node.Status.DaemonEndpoints.KubeletEndpoint.Port; reported > 0 {
		port = uint16(reported)
	}
	return &client.ConnectionInfo{
		Scheme: "https", Hostname: host, Port: strconv.Itoa(int(port)),
		Transport: c.transport(true), InsecureSkipTLSVerifyTransport: c.transport(false),
		NodeFeatures: node.Status.DeclaredFeatures,
	}, nil
}
