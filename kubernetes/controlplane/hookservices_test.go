package controlplane_test

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// Conversion and admission webhooks that name a Service are called at the address of the Service.
func TestWebhooksByService(t *testing.T) {
	ca := newAuthority(t, "hooks")
	pair, err := ca.Server("hook.default.svc")
	require.NoError(t, err)
	certificate, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	require.NoError(t, err)
	hook := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var review struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Request    struct {
				UID               string           `json:"uid"`
				DesiredAPIVersion string           `json:"desiredAPIVersion"`
				Objects           []map[string]any `json:"objects"`
			} `json:"request"`
		}
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		response := map[string]any{"uid": review.Request.UID}
		if req.URL.Path == "/convert" {
			for _, obj := range review.Request.Objects {
				obj["apiVersion"] = review.Request.DesiredAPIVersion
				obj["converted"] = true
			}
			response["convertedObjects"], response["result"] = review.Request.Objects,
				map[string]string{"status": "Success"}
		} else {
			response["allowed"], response["status"] = false, map[string]string{"message": "not today"}
		}
		json.NewEncoder(w).Encode(map[string]any{"apiVersion": review.APIVersion, "kind": review.Kind,
			"response": response})
	}))
	hook.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	hook.StartTLS()
	defer hook.Close()

	plane := start(t, controlplane.Config{Controllers: controlplane.NoControllers{}})
	create := func(path, body string) {
		t.Helper()
		if code, answer := ask(t, plane, root, "POST", path, body); code != http.StatusCreated {
			t.Fatal(path, code, answer)
		}
	}
	bundle := base64.StdEncoding.EncodeToString(ca.PEM)
	create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
		"metadata":{"name":"things.probe.example.com"},"spec":{"group":"probe.example.com","scope":"Namespaced","names":{"plural":"things","kind":"Thing"},
		"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],
			"clientConfig":{"caBundle":%q,"service":{"namespace":"default","name":"hook","path":"/convert"}}}},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}},
			{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`, bundle))
	create("/apis/probe.example.com/v1/namespaces/default/things",
		`{"apiVersion":"probe.example.com/v1","kind":"Thing","metadata":{"name":"a"}}`)
	const v2 = "/apis/probe.example.com/v2/namespaces/default/things/a"
	if code, answer := ask(t, plane, root, "GET", v2, ""); code != http.StatusInternalServerError ||
		!strings.Contains(answer, `services \"hook\" not found`) {
		t.Errorf("without the Service: %d %s", code, answer)
	}
	create("/api/v1/namespaces/default/services", fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"hook","annotations":{"kelson.dev/url":%q}},
		"spec":{"ports":[{"port":443}]}}`, hook.URL))
	if code, answer := ask(t, plane, root, "GET", v2, ""); code != http.StatusOK ||
		!strings.Contains(answer, `"converted":true`) {
		t.Errorf("converted by the Service: %d %s", code, answer)
	}

	create("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1",
		"kind":"ValidatingWebhookConfiguration","metadata":{"name":"hook"},"webhooks":[{"name":"hook.example.com","sideEffects":"None",
		"admissionReviewVersions":["v1"],"clientConfig":{"caBundle":%q,"service":{"namespace":"default","name":"hook"}},
		"rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE"]}]}]}`, bundle))
	if code, answer := ask(t, plane, root, "POST", "/api/v1/namespaces/default/configmaps",
		`{"metadata":{"name":"a"}}`); code < 400 || !strings.Contains(answer, "not today") {
		t.Errorf("admission by the Service: %d %s", code, answer)
	}
}
