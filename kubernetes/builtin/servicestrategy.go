package builtin

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service"

	"kelson.dev/apiserver/resource"
)

// serviceStrategy is Kubernetes' own strategy, preceded by two steps that Kubernetes does
// elsewhere: it makes clusterIP and clusterIPs agree, and keeps allocated values in an update that
// omits them, such as a manifest that is applied again.
type serviceStrategy struct {
	resource.Strategy
	upstream.ResetFieldsStrategy
	upstream.DeclarativeValidationStrategy
}

func newServiceStrategy() serviceStrategy {
	return serviceStrategy{service.Strategy, service.Strategy, service.Strategy}
}

func (s serviceStrategy) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	svc := obj.(*core.Service)
	if svc.Spec.ClusterIP != "" && len(svc.Spec.ClusterIPs) == 0 {
		svc.Spec.ClusterIPs = []string{svc.Spec.ClusterIP}
	}
	s.Strategy.PrepareForCreate(ctx, obj)
}

func (s serviceStrategy) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	svc, previous := obj.(*core.Service), old.(*core.Service)
	keepAllocated(svc, previous)
	agreeClusterIPs(svc, previous)
	s.Strategy.PrepareForUpdate(ctx, obj, old)
}

// Canonicalize drops, after validation, the fields that Kubernetes hides for a Service of type
// ExternalName.
func (s serviceStrategy) Canonicalize(obj runtime.Object) {
	s.Strategy.Canonicalize(obj)
	if svc := obj.(*core.Service); svc.Spec.Type == core.ServiceTypeExternalName {
		svc.Spec.InternalTrafficPolicy = nil
	}
}

// keepAllocated copies the addresses and ports that an update omits from the old Service.
func keepAllocated(svc, previous *core.Service) {
	if svc.Spec.Type != core.ServiceTypeExternalName && previous.Spec.Type != core.ServiceTypeExternalName {
		if svc.Spec.ClusterIP == "" {
			svc.Spec.ClusterIP = previous.Spec.ClusterIP
		}
		if len(svc.Spec.ClusterIPs) == 0 {
			svc.Spec.ClusterIPs = previous.Spec.ClusterIPs
		}
	}
	if hasNodePorts(svc) && hasNodePorts(previous) {
		taken, byName := map[int32]bool{}, map[string]int32{}
		for _, p := range svc.Spec.Ports {
			taken[p.NodePort] = true
		}
		for _, p := range previous.Spec.Ports {
			byName[p.Name] = p.NodePort
		}
		for i := range svc.Spec.Ports {
			p := &svc.Spec.Ports[i]
			if before := byName[p.Name]; p.NodePort == 0 && !taken[before] {
				p.NodePort = before
			}
		}
	}
	if hasHealthPort(svc) && hasHealthPort(previous) && svc.Spec.HealthCheckNodePort == 0 {
		svc.Spec.HealthCheckNodePort = previous.Spec.HealthCheckNodePort
	}
}

// agreeClusterIPs updates clusterIPs from clusterIP for clients that set only clusterIP.
func agreeClusterIPs(svc, previous *core.Service) {
	same := slices.Equal(svc.Spec.ClusterIPs, previous.Spec.ClusterIPs)
	switch {
	case svc.Spec.ClusterIP == previous.Spec.ClusterIP:
		if len(svc.Spec.ClusterIPs) == 0 {
			svc.Spec.ClusterIPs = previous.Spec.ClusterIPs
		}
	case !same: // both were changed: validation checks whether they agree
	case svc.Spec.ClusterIP == "":
		svc.Spec.ClusterIPs = nil
	default:
		svc.Spec.ClusterIPs = []string{svc.Spec.ClusterIP}
	}
}

func hasNodePorts(svc *core.Service) bool {
	allocate := svc.Spec.AllocateLoadBalancerNodePorts
	return svc.Spec.Type == core.ServiceTypeNodePort ||
		svc.Spec.Type == core.ServiceTypeLoadBalancer && (allocate == nil || *allocate)
}

func hasHealthPort(svc *core.Service) bool {
	return svc.Spec.Type == core.ServiceTypeLoadBalancer &&
		svc.Spec.ExternalTrafficPolicy == core.ServiceExternalTrafficPolicyLocal
}
