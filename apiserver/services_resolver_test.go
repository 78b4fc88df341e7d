package apiserver_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver/services"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// A Service resolves to an address.
func TestResolve(t *testing.T) {
	port := func(n int32) *int32 { return &n }
	text := func(s string) *string { return &s }
	yes, no := true, false
	service := func(spec corev1.ServiceSpec) any {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "n"}, Spec: spec}
	}
	annotated := func(url string) map[string]any {
		return map[string]any{"services": &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "n",
			Annotations: map[string]string{services.URL: url}}}}
	}
	cluster := service(corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.0.0.9",
		Ports: []corev1.ServicePort{{Name: "https", Port: 443}}})
	slice := func(ready *bool) any {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "s-1", Namespace: "n",
				Labels: map[string]string{discoveryv1.LabelServiceName: "s"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports: []discoveryv1.EndpointPort{{Name: text("other"), Port: port(1)},
				{Name: text("https"), Port: port(9443)}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"1.2.3.4"},
				Conditions: discoveryv1.EndpointConditions{Ready: ready}}},
		}
	}
	endpoints := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "n"},
		Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: "5.6.7.8"}},
			Ports:     []corev1.EndpointPort{{Name: "https", Port: 8443}},
		}}}
	headless := service(corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIP: "None",
		Ports: []corev1.ServicePort{{Name: "https", Port: 443}}})
	const byClusterIP = "by cluster IP: " // names of tests with Config.ClusterIP
	for _, test := range []struct {
		name    string
		objects map[string]any // by resource
		port    int32
		want    string // URL, or a part of the error
	}{
		{"no service", nil, 443, `services "s" not found`},
		{"no such port", map[string]any{"services": cluster}, 80, `no service port 80 found for service "s"`},
		{"no endpoints", map[string]any{"services": cluster}, 443, `no endpoints available for service "s"`},
		{"slice", map[string]any{"services": cluster, "endpointslices.discovery.k8s.io": slice(&yes)}, 443,
			"https://1.2.3.4:9443"},
		{"slice that is not ready", map[string]any{"services": cluster, "endpointslices.discovery.k8s.io": slice(&no)},
			443, `no endpoints available for service "s"`},
		{"endpoints", map[string]any{"services": cluster, "endpoints": endpoints}, 443, "https://5.6.7.8:8443"},
		{"slices before endpoints", map[string]any{"services": cluster, "endpoints": endpoints,
			"endpointslices.discovery.k8s.io": slice(&yes)}, 443, "https://1.2.3.4:9443"},
		{"external", map[string]any{"services": service(corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName,
			ExternalName: "example.com"})}, 443, "https://example.com:443"},
		{"URL", annotated("https://127.0.0.1:8443"), 443, "https://127.0.0.1:8443"},
		{"URL without a port", annotated("https://[::1]/"), 443, "https://[::1]:443"},
		{"URL without TLS", annotated("http://127.0.0.1:8080"), 443,
			`"http://127.0.0.1:8080" must have the form https://host:port`},
		{"URL with a path", annotated("https://127.0.0.1/x"), 443, "must have the form"},
		{byClusterIP + "slices are ignored", map[string]any{"services": cluster,
			"endpointslices.discovery.k8s.io": slice(&yes)}, 443, "https://10.0.0.9:443"},
		{byClusterIP + "headless", map[string]any{"services": headless}, 443,
			`cannot route to service with ClusterIP "None"`},
		{byClusterIP + "no such port", map[string]any{"services": cluster}, 80,
			`no service port 80 found for service "s"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			st := storetest.New(t, store.Config{})
			for resource, obj := range test.objects {
				data, err := json.Marshal(obj)
				require.NoError(t, err)
				name := "s"
				if resource == "endpointslices.discovery.k8s.io" {
					name = "s-1"
				}
				_, err = st.Commit(t.Context(),
					store.Op{Key: store.Key{Resource: resource, Namespace: "n", Name: name}, Data: data})
				require.NoError(t, err)
			}
			resolver := services.New(services.Config{Store: st, ClusterIP: strings.HasPrefix(test.name, byClusterIP)})
			var got string
			if url, err := resolver.ResolveEndpoint("n", "s", test.port); err != nil {
				got = err.Error()
			} else {
				got = url.String()
			}
			assert.Containsf(t, got, test.want, "ResolveEndpoint")
		})
	}
}
