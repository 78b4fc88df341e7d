package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// inject is an object that wants the CA of the Secret default/ca, and the CA that it has.
type inject struct {
	object client.Object
	ca     func() []byte
}

// All kinds get the CA of a Secret, and the new one when the Secret changes.
func TestInjection(t *testing.T) {
	env := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("..", "..", "deploy", "crds")}, ErrorIfCRDPathMissing: true}
	config, err := env.Start()
	must(t, err)
	defer func() { must(t, env.Stop()) }()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme} {
		must(t, add(s))
	}
	c, err := client.New(config, client.Options{Scheme: s})
	must(t, err)

	first, second := authority(t), authority(t)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ca", Annotations: map[string]string{cmapi.AllowsInjectionFromSecretAnnotation: "true"}},
		Data:       map[string][]byte{"ca.crt": first},
	}
	must(t, c.Create(t.Context(), secret))
	objects := objects()
	for _, o := range objects {
		o.object.SetAnnotations(map[string]string{cmapi.WantInjectFromSecretAnnotation: "default/ca"})
	}
	// half of them before the injectors start
	for _, o := range objects[:2] {
		must(t, c.Create(t.Context(), o.object))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, config, "0") }()
	for _, o := range objects[2:] {
		must(t, c.Create(t.Context(), o.object))
	}
	waitFor(t, c, objects, first)
	secret.Data["ca.crt"] = second
	must(t, c.Update(t.Context(), secret))
	waitFor(t, c, objects, second)
	cancel()
	must(t, <-ended)
}

func objects() []inject {
	none, url := admissionv1.SideEffectClassNone, "https://127.0.0.1:1/"
	validating := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "validating"},
		Webhooks: []admissionv1.ValidatingWebhook{{Name: "v.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionv1.WebhookClientConfig{URL: &url}}},
	}
	mutating := &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "mutating"},
		Webhooks: []admissionv1.MutatingWebhook{{Name: "m.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionv1.WebhookClientConfig{URL: &url}}},
	}
	service := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: "v1.example.com"},
		Spec: apiregistrationv1.APIServiceSpec{Group: "example.com", Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 100,
			Service: &apiregistrationv1.ServiceReference{Namespace: "default", Name: "example"}},
	}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "lamps.lights.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "lights.example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "lamps", Singular: "lamp", Kind: "Lamp", ListKind: "LampList"},
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
				ConversionReviewVersions: []string{"v1"}, ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: &url},
			}},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}}},
		},
	}
	return []inject{
		{validating, func() []byte { return validating.Webhooks[0].ClientConfig.CABundle }},
		{crd, func() []byte { return crd.Spec.Conversion.Webhook.ClientConfig.CABundle }},
		{mutating, func() []byte { return mutating.Webhooks[0].ClientConfig.CABundle }},
		{service, func() []byte { return service.Spec.CABundle }},
	}
}

// authority returns a new CA's certificate, in PEM.
func authority(t *testing.T) []byte {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	must(t, err)
	return bytes.TrimSpace(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// waitFor waits until all objects have a CA; they may keep an earlier one.
func waitFor(t *testing.T, c client.Client, objects []inject, ca []byte) {
	t.Helper()
	for _, o := range objects {
		for deadline := time.Now().Add(30 * time.Second); !bytes.Contains(o.ca(), ca); time.Sleep(20 * time.Millisecond) {
			must(t, c.Get(t.Context(), client.ObjectKeyFromObject(o.object), o.object))
			if time.Now().After(deadline) {
				t.Fatalf("%T has the CA %q, not %q", o.object, o.ca(), ca)
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
