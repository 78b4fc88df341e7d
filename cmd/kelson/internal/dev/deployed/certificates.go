package deployed

import (
	"encoding/base64"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/cert"

	"kelson.dev/cmd/kelson/internal/manifests"
)

const (
	certManager = "cert-manager.io"
	// injectFrom is cert-manager's annotation with the Certificate whose authority clients of a
	// webhook or API server trust: NAMESPACE/NAME.
	injectFrom = "cert-manager.io/inject-ca-from"
)

// certificates treats the deployed objects like cert-manager: it replaces Certificates by the
// Secrets that they describe, with self-signed certificates, and adds their authorities to the
// objects that request them. Projects that rotate their certificates with a controller of their own
// have no Certificates, and are not affected.
func (s *Source) certificates(m *Manifests) error {
	issued := map[string]string{} // by NAMESPACE/NAME of the Certificate: its authority
	var kept manifests.Objects
	for _, obj := range m.Objects {
		if obj.GroupVersionKind().Group != certManager {
			kept = append(kept, obj)
			continue
		}
		if obj.GetKind() != "Certificate" {
			continue // an issuer
		}
		secret, authority, err := s.issue(obj)
		if err != nil {
			return fmt.Errorf("issue Certificate %s: %w", obj.GetName(), err)
		}
		issued[obj.GetNamespace()+"/"+obj.GetName()] = authority
		kept = append(kept, secret)
	}
	m.Objects = kept
	if len(issued) > 0 {
		m.note("issued %d certificates that cert-manager would issue", len(issued))
	}
	for _, obj := range append(m.Definitions[:len(m.Definitions):len(m.Definitions)], m.Objects...) {
		authority, ok := issued[obj.GetAnnotations()[injectFrom]]
		if !ok {
			continue
		}
		if err := inject(obj, authority); err != nil {
			return fmt.Errorf("add the authority of %s to %s %s: %w", obj.GetAnnotations()[injectFrom], obj.GetKind(),
				obj.GetName(), err)
		}
	}
	return nil
}

// issue returns the Secret of a Certificate, and its authority in base64. It returns the same ones
// until the Certificate changes.
func (s *Source) issue(c *unstructured.Unstructured) (secret *unstructured.Unstructured, authority string, err error) {
	key, err := c.MarshalJSON()
	if err != nil {
		return nil, "", err
	}
	if known := s.secrets[string(key)]; known != nil {
		authority, _, err = unstructured.NestedString(known.Object, "data", corev1.TLSCertKey)
		return known.DeepCopy(), authority, err
	}
	names, _, err := unstructured.NestedStringSlice(c.Object, "spec", "dnsNames")
	if err != nil {
		return nil, "", err
	}
	name, _, err := unstructured.NestedString(c.Object, "spec", "secretName")
	if err != nil {
		return nil, "", err
	}
	if name == "" || len(names) == 0 {
		return nil, "", fmt.Errorf("secretName or dnsNames is missing")
	}
	public, private, err := cert.GenerateSelfSignedCertKey(names[0], nil, names[1:])
	if err != nil {
		return nil, "", err
	}
	authority = base64.StdEncoding.EncodeToString(public)
	secret = &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": string(corev1.SecretTypeTLS),
		"data": map[string]any{
			corev1.TLSCertKey: authority, "ca.crt": authority,
			corev1.TLSPrivateKeyKey: base64.StdEncoding.EncodeToString(private),
		},
	}}
	secret.SetName(name)
	secret.SetNamespace(c.GetNamespace())
	if s.secrets == nil {
		s.secrets = map[string]*unstructured.Unstructured{}
	}
	s.secrets[string(key)] = secret
	return secret.DeepCopy(), authority, nil
}

// inject sets the authority that clients of an object's server trust.
func inject(obj *unstructured.Unstructured, authority string) error {
	switch obj.GetKind() {
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		hooks, _, err := unstructured.NestedSlice(obj.Object, "webhooks")
		if err != nil {
			return err
		}
		for _, hook := range hooks {
			if hook, ok := hook.(map[string]any); ok {
				if err := unstructured.SetNestedField(hook, authority, "clientConfig", "caBundle"); err != nil {
					return err
				}
			}
		}
		return unstructured.SetNestedSlice(obj.Object, hooks, "webhooks")
	case "CustomResourceDefinition":
		if _, ok, _ := unstructured.NestedMap(obj.Object, "spec", "conversion", "webhook", "clientConfig"); !ok {
			return nil
		}
		return unstructured.SetNestedField(obj.Object, authority, "spec", "conversion", "webhook", "clientConfig",
			"caBundle")
	case "APIService":
		unstructured.RemoveNestedField(obj.Object, "spec", "insecureSkipTLSVerify")
		return unstructured.SetNestedField(obj.Object, authority, "spec", "caBundle")
	}
	return nil
}
