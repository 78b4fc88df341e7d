package controlplane

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/inprocess"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/builtin"
)

const (
	serviceCIDRsPath = "/apis/networking.k8s.io/v1/servicecidrs"
	ipAddressesPath  = "/apis/networking.k8s.io/v1/ipaddresses"
	// serviceCIDRManager is the manager of the status in kube-apiserver.
	serviceCIDRManager = "kubernetes-service-cidr-controller"
)

// defaultServiceCIDR creates the ServiceCIDR "kubernetes" with the configured ranges, which is
// ready immediately. It adds a second range to an existing ServiceCIDR. Like kube-apiserver, it
// keeps an existing one with other ranges: Services get their addresses from the stored
// ServiceCIDR, not from the configured ranges.
func defaultServiceCIDR(ctx context.Context, state *store.Snapshot, served *resource.Set, transport http.RoundTripper,
	serviceRange string, log *slog.Logger) error {
	if !served.Serves(networkingv1.SchemeGroupVersion.WithResource("servicecidrs"), "") {
		return nil
	}
	if serviceRange == "" {
		serviceRange = builtin.DefaultServiceRange
	}
	var ranges []string
	for text := range strings.SplitSeq(serviceRange, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return fmt.Errorf("service range: %w", err)
		}
		ranges = append(ranges, prefix.Masked().String())
	}
	cidr := &networkingv1.ServiceCIDR{
		TypeMeta:   metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "ServiceCIDR"},
		ObjectMeta: metav1.ObjectMeta{Name: builtin.DefaultServiceCIDR},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: ranges},
	}
	stored := state.Get(store.Key{Resource: "servicecidrs.networking.k8s.io", Name: cidr.Name})
	if stored == nil {
		if err := create(ctx, transport, serviceCIDRsPath, cidr); err != nil {
			return fmt.Errorf("ServiceCIDR %s: %w", cidr.Name, err)
		}
		if err := adoptAddresses(ctx, state, transport); err != nil {
			return err
		}
		return makeReady(ctx, transport, cidr)
	}
	now, err := derived.Of[networkingv1.ServiceCIDR](stored)
	switch {
	case err != nil:
		return err
	case slices.Equal(now.Spec.CIDRs, ranges):
		if now.DeletionTimestamp == nil && apimeta.FindStatusCondition(now.Status.Conditions,
			networkingv1.ServiceCIDRConditionReady) == nil {
			return makeReady(ctx, transport, cidr)
		}
	case len(ranges) == 2 && slices.Equal(now.Spec.CIDRs, ranges[:1]):
		now = now.DeepCopy()
		now.TypeMeta, now.Spec.CIDRs = cidr.TypeMeta, ranges
		if _, err := writeAsServer(http.MethodPut, serviceCIDRsPath+"/"+cidr.Name, now).Do(ctx, transport); err != nil {
			return fmt.Errorf("ServiceCIDR %s: add %s: %w", cidr.Name, ranges[1], err)
		}
	default:
		log.Warn("Services get addresses of the stored ServiceCIDR, not of the configured range",
			"servicecidr", cidr.Name, "stored", now.Spec.CIDRs, "configured", ranges)
	}
	return nil
}

// makeReady sets the condition Ready of the default ServiceCIDR.
func makeReady(ctx context.Context, transport http.RoundTripper, cidr *networkingv1.ServiceCIDR) error {
	status := map[string]any{
		"apiVersion": cidr.APIVersion, "kind": cidr.Kind, "metadata": map[string]any{"name": cidr.Name},
		// without a reason, so that kube-apiserver's field manager does not own that
		"status": map[string]any{"conditions": []map[string]any{{
			"type": networkingv1.ServiceCIDRConditionReady, "status": metav1.ConditionTrue,
			"message": "Kubernetes default Service CIDR is ready", "lastTransitionTime": metav1.Now(),
		}}},
	}
	_, err := inprocess.Call{
		Method: http.MethodPatch, Path: serviceCIDRsPath + "/" + cidr.Name + "/status?force=true&fieldManager=" +
			serviceCIDRManager,
		Body: status, ContentType: "application/apply-patch+yaml",
	}.Do(ctx, transport)
	if err != nil {
		return fmt.Errorf("status of ServiceCIDR %s: %w", cidr.Name, err)
	}
	return nil
}

// adoptAddresses creates the IPAddresses of Services in a state that an earlier release wrote
// without IPAddresses.
func adoptAddresses(ctx context.Context, state *store.Snapshot, transport http.RoundTripper) error {
	for svc, err := range derived.List[corev1.Service](state, "services", "") {
		if err != nil {
			return fmt.Errorf("list services: %w", err)
		}
		for _, text := range svc.Spec.ClusterIPs {
			address, err := netip.ParseAddr(text)
			if err != nil {
				continue // "None"
			}
			if err := create(ctx, transport, ipAddressesPath,
				builtin.NewIPAddress(address, svc.Namespace, svc.Name)); err != nil {
				return fmt.Errorf("IPAddress %s: %w", address, err)
			}
		}
	}
	return nil
}
