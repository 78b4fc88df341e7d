package node

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator/client"
)

// serviceLinks returns the variables with the addresses of Services: those of the Service
// "kubernetes" and, if the pod enables service links, of the Services in its namespace.
// Source: "Environment variables" in the documentation of Services.
func (a *Agent) serviceLinks(ctx context.Context, pod *corev1.Pod) ([]corev1.EnvVar, error) {
	var env []corev1.EnvVar
	api, err := client.Get[corev1.Service](ctx, a.client,
		client.Key{Namespace: metav1.NamespaceDefault, Name: "kubernetes"})
	switch {
	case err == nil:
		if env, err = linksOf(api, a.config.Server); err != nil {
			return nil, err
		}
	case a.config.Server != "":
		if env, err = linksOf(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Protocol: corev1.ProtocolTCP}}}},
			a.config.Server); err != nil {
			return nil, err
		}
	}
	if pod.Spec.EnableServiceLinks != nil && !*pod.Spec.EnableServiceLinks {
		return env, nil
	}
	services, err := client.List[corev1.Service](ctx, a.client, client.InNamespace(pod.Namespace))
	if err != nil {
		return nil, fmt.Errorf("services have not yet been read at least once, cannot construct envvars: %w", err)
	}
	for _, service := range services {
		if service.Namespace == metav1.NamespaceDefault && service.Name == "kubernetes" {
			continue
		}
		links, err := linksOf(service, "")
		if err != nil {
			return nil, err
		}
		env = append(env, links...)
	}
	return env, nil
}

// linksOf returns the variables of a Service. at, unless empty, replaces its address and its only
// port by an address that pods can reach.
func linksOf(service *corev1.Service, at string) ([]corev1.EnvVar, error) {
	host := service.Spec.ClusterIP
	ports := service.Spec.Ports
	if at != "" {
		reachable, portText, err := net.SplitHostPort(at)
		if err != nil {
			return nil, err
		}
		port, err := strconv.ParseInt(portText, 10, 32)
		if err != nil {
			return nil, err
		}
		host, ports = reachable, []corev1.ServicePort{{Name: "https", Protocol: corev1.ProtocolTCP, Port: int32(port)}}
	}
	if host == "" || host == corev1.ClusterIPNone || len(ports) == 0 {
		return nil, nil
	}
	name := variable(service.Name)
	var env []corev1.EnvVar
	set := func(suffix, value string) { env = append(env, corev1.EnvVar{Name: name + suffix, Value: value}) }
	number := func(port int32) string { return strconv.Itoa(int(port)) }
	set("_SERVICE_HOST", host)
	set("_SERVICE_PORT", number(ports[0].Port))
	for _, p := range ports {
		if p.Name != "" {
			set("_SERVICE_PORT_"+variable(p.Name), number(p.Port))
		}
	}
	for i, p := range ports {
		protocol := p.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP
		}
		url := strings.ToLower(string(protocol)) + "://" + net.JoinHostPort(host, number(p.Port))
		if i == 0 {
			set("_PORT", url)
		}
		prefix := fmt.Sprintf("_PORT_%d_%s", p.Port, strings.ToUpper(string(protocol)))
		set(prefix, url)
		set(prefix+"_PROTO", strings.ToLower(string(protocol)))
		set(prefix+"_PORT", number(p.Port))
		set(prefix+"_ADDR", host)
	}
	return env, nil
}

// variable converts a name to the form that environment variables have.
func variable(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }
