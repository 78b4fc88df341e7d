package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// bootstrap creates, through the API, what every cluster has from the start and this one lacks. API-12
func bootstrap(ctx context.Context, transport http.RoundTripper, serviceRange string) error {
	client := &http.Client{Transport: transport}
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease} {
		err := createMissing(ctx, client, "/api/v1/namespaces", name, &corev1.Namespace{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
		})
		if err != nil {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	address, err := firstAddress(serviceRange)
	if err != nil {
		return err
	}
	policy := corev1.IPFamilyPolicySingleStack
	err = createMissing(ctx, client, "/api/v1/namespaces/default/services", "kubernetes", &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Name:      "kubernetes",
			Namespace: metav1.NamespaceDefault,
			Labels:    map[string]string{"component": "apiserver", "provider": "kubernetes"},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP:       address,
			Type:            corev1.ServiceTypeClusterIP,
			SessionAffinity: corev1.ServiceAffinityNone,
			IPFamilyPolicy:  &policy,
			Ports: []corev1.ServicePort{{
				Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, TargetPort: intstr.FromInt32(6443),
			}},
		},
	})
	if err != nil {
		return fmt.Errorf("service kubernetes: %w", err)
	}
	return nil
}

// firstAddress is the first usable address of the service range, which the kubernetes service has everywhere.
func firstAddress(serviceRange string) (string, error) {
	if serviceRange == "" {
		return "10.0.0.1", nil
	}
	ip, _, err := net.ParseCIDR(serviceRange)
	if err != nil {
		return "", fmt.Errorf("service range: %w", err)
	}
	if v4 := ip.To4(); v4 != nil {
		ip = v4
	}
	ip[len(ip)-1]++
	return ip.String(), nil
}

func createMissing(ctx context.Context, client *http.Client, collection, name string, obj any) error {
	got, err := do(ctx, client, http.MethodGet, collection+"/"+name, nil)
	if err != nil || got == http.StatusOK {
		return err
	}
	body, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	_, err = do(ctx, client, http.MethodPost, collection, body)
	return err
}

// do sends a request and gives the status; one that is neither a success, nor 404, nor 409 is an error.
func do(ctx context.Context, client *http.Client, method, path string, body []byte) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://kelson.in-process"+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	switch code := resp.StatusCode; {
	case code < 300, method == http.MethodGet && code == http.StatusNotFound, code == http.StatusConflict:
		return code, nil
	default:
		return code, fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
}
