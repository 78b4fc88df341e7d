package controller

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// specFor sends all of a host's paths to the first port of a Service.
func specFor(service *corev1.Service, host string) networkingv1.IngressSpec {
	if host == "true" {
		host = ""
	}
	port := networkingv1.ServiceBackendPort{Number: 80}
	if ports := service.Spec.Ports; len(ports) > 0 {
		port.Number = ports[0].Port
	}
	prefix := networkingv1.PathTypePrefix
	return networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{
		Host: host,
		IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
			Path: "/", PathType: &prefix,
			Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: service.Name,
				Port: port}},
		}}}},
	}}}
}

// same reports whether the rules are equal. It ignores other fields of the spec, such as the class.
func same(a, b networkingv1.IngressSpec) bool { return reflect.DeepEqual(a.Rules, b.Rules) }
