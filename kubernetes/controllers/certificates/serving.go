package certificates

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/netip"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	rules "k8s.io/kubernetes/pkg/apis/certificates"

	"kelson.dev/apiserver/store/derived"
)

const (
	nodeUserPrefix = "system:node:"
	// A kubelet can request its certificate before its addresses are in its Node object.
	addressesWithin = time.Minute
	addressesRetry  = 2 * time.Second
)

// approveServing approves a kubelet's request for its serving certificate. Kubernetes has no
// approver for them; one is needed because kube-apiserver verifies the certificates of kubelets.
//
// The node itself must request it, for its name and for addresses of its Node object. A node writes
// these addresses itself, so they must not belong to another node or to a Service. A request that
// does not qualify stays undecided; an administrator can approve it.
func (c *Controller) approveServing(ctx context.Context, r *certificatesv1.CertificateSigningRequest,
	request *x509.CertificateRequest) (retry time.Duration, err error) {
	if !c.cfg.ApproveServing || rules.ValidateKubeletServingCSR(request, names(r.Spec.Usages)) != nil {
		return 0, nil
	}
	name, isNode := strings.CutPrefix(r.Spec.Username, nodeUserPrefix)
	if !isNode || r.Spec.Username != request.Subject.CommonName {
		return 0, nil
	}
	if err := c.checkServing(name, request); err != nil {
		if time.Since(r.CreationTimestamp.Time) < addressesWithin {
			return addressesRetry, nil
		}
		c.cfg.Log.Warn("serving certificate of a kubelet not approved; approve the request by hand if it is correct",
			"request", r.Name, "node", name, "reason", err)
		return 0, nil
	}
	r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AutoApproved",
		Message: "The kubelet requested a certificate for the name and addresses of its own node.",
	})
	return 0, c.cfg.Serving.Subresource("approval").Update(ctx, r, nil)
}

// checkServing returns why a node may not have a serving certificate with the names of a request.
func (c *Controller) checkServing(name string, request *x509.CertificateRequest) error {
	for _, dns := range request.DNSNames {
		if dns != name {
			return fmt.Errorf("DNS name %q is not the name of the node", dns)
		}
	}
	owners := map[netip.Addr][]string{} // the nodes that have an address
	found := false
	current := c.cfg.Store.Snapshot()
	for node, err := range derived.List[corev1.Node](current, "nodes", "") {
		if err != nil {
			return err
		}
		found = found || node.Name == name
		for _, a := range node.Status.Addresses {
			if addr, err := netip.ParseAddr(a.Address); err == nil {
				owners[addr.Unmap()] = append(owners[addr.Unmap()], node.Name)
			}
		}
	}
	if !found {
		return fmt.Errorf("node %q does not exist", name)
	}
	for _, ip := range request.IPAddresses {
		addr, _ := netip.AddrFromSlice(ip)
		addr = addr.Unmap()
		if !addr.IsGlobalUnicast() {
			return fmt.Errorf("address %s is not a global unicast address", addr)
		}
		for _, owner := range owners[addr] {
			if owner != name {
				return fmt.Errorf("address %s also belongs to node %q", addr, owner)
			}
		}
		if len(owners[addr]) == 0 {
			return fmt.Errorf("address %s is not an address of the node", addr)
		}
		if _, err := derived.Get[networkingv1.IPAddress](current, "ipaddresses.networking.k8s.io", "",
			addr.String()); err == nil {
			return fmt.Errorf("address %s belongs to a Service", addr)
		} else if !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
