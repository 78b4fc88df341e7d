package deployed

import (
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"kelson.dev/apiserver/services"
)

// withoutEndpoints replaces the selectors of the operator's Services by the URL of the operator's
// port on this machine. The controllers of Endpoints would otherwise try forever to write its
// loopback address, and its webhooks would have no address.
func (m *Manifests) withoutEndpoints() {
	changed := false
	for _, obj := range m.Objects {
		if obj.GetKind() != "Service" {
			continue
		}
		service := &corev1.Service{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, service); err != nil {
			continue // the server rejects it
		}
		if len(service.Spec.Selector) == 0 || !selects(service.Spec.Selector, m.Manager) {
			continue
		}
		changed = true
		unstructured.RemoveNestedField(obj.Object, "spec", "selector")
		port, ok := m.targetPort(service)
		if !ok {
			continue
		}
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		if _, own := annotations[services.URL]; !own {
			annotations[services.URL] = "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
		obj.SetAnnotations(annotations)
	}
	if changed {
		m.note("this machine has only loopback addresses: the Services of the operator have no endpoints")
	}
}

// targetPort returns the port of the operator's pod to which a Service leads from its port 443,
// which webhooks use, or from its only port. It returns false if the Service has several other
// ports, or if the container has no port with the name.
func (m *Manifests) targetPort(service *corev1.Service) (int, bool) {
	port := services.Port(service, 443)
	if port == nil {
		if len(service.Spec.Ports) != 1 {
			return 0, false
		}
		port = &service.Spec.Ports[0]
	}
	switch target := port.TargetPort; {
	case target.Type == intstr.String:
		return m.namedPort(target.StrVal)
	case target.IntVal != 0:
		return int(target.IntVal), true
	}
	return int(port.Port), true
}

// namedPort returns the port of the operator's container with a name.
func (m *Manifests) namedPort(name string) (int, bool) {
	for _, port := range m.Manager.Spec.Template.Spec.Containers[0].Ports {
		if port.Name == name {
			return int(port.ContainerPort), true
		}
	}
	return 0, false
}
