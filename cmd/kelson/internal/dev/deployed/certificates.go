package deployed

import (
	"encoding/base64"
	"fmt"
	"path"
	"regexp"
	"slices"

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
	// ownCertificate is the name of the Certificate and the Secret of [Source.Certify].
	ownCertificate = "kelson-dev-webhooks"
)

// missingCertificate matches the error of a webhook server that finds no certificate.
var missingCertificate = regexp.MustCompile(`open (/\S*/serving-certs)/tls\.crt: no such file`)

// MissingCertificate returns the folder in which an operator looks for the certificate of its
// webhooks, if a line of its output reports that it has none; otherwise "".
func MissingCertificate(line string) string {
	if m := missingCertificate.FindStringSubmatch(line); m != nil {
		return m[1]
	}
	return ""
}

// Certify makes Read add a certificate for the operator's webhooks, which the project does not
// deploy, in a folder of the operator's pod. It returns false if the Deployment has a volume there.
func (s *Source) Certify(m *Manifests, folder string) bool {
	if slices.ContainsFunc(m.Manager.Spec.Template.Spec.Containers[0].VolumeMounts, func(v corev1.VolumeMount) bool {
		return path.Clean(v.MountPath) == folder
	}) {
		return false
	}
	s.serving = folder
	return true
}

// certify adds a Certificate for the Services of webhooks, whose clients trust it, and mounts its
// Secret in a folder of the operator's pod.
func (m *Manifests) certify(folder string) {
	names := []any{"localhost"}
	for _, obj := range slices.Concat(m.Definitions, m.Objects) {
		if obj.GetKind() == "APIService" {
			continue
		}
		for _, ref := range serviceRefs(obj) {
			name := fmt.Sprintf("%v.%v.svc", ref["name"], ref["namespace"])
			if !slices.Contains(names, any(name)) {
				names = append(names, name)
			}
			annotations := obj.GetAnnotations()
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[injectFrom] = m.Manager.Namespace + "/" + ownCertificate
			obj.SetAnnotations(annotations)
		}
	}
	c := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": certManager + "/v1", "kind": "Certificate",
		"spec": map[string]any{"dnsNames": names, "secretName": ownCertificate},
	}}
	c.SetNamespace(m.Manager.Namespace)
	c.SetName(ownCertificate)
	m.Objects = append(m.Objects, c)
	pod := &m.Manager.Spec.Template.Spec
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: ownCertificate, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: ownCertificate}}})
	pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts,
		corev1.VolumeMount{Name: ownCertificate, MountPath: folder, ReadOnly: true})
}

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
