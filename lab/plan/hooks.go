package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
)

// hooks replaces all admission webhooks. It allows every request, and records which of the
// operator's requests each webhook would have received.
type hooks struct {
	mu    sync.Mutex
	names map[string]string // by address
}

// learn reads the names of the webhooks in a state.
func (h *hooks) learn(sn *store.Snapshot) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.names = map[string]string{}
	add := func(configuration, name string, cc admissionregistrationv1.WebhookClientConfig) {
		h.names[address(cc)] = configuration + "/" + name
	}
	for c, err := range derived.List[admissionregistrationv1.MutatingWebhookConfiguration](sn,
		"mutatingwebhookconfigurations.admissionregistration.k8s.io", "") {
		if err != nil {
			return err
		}
		for _, w := range c.Webhooks {
			add(c.Name, w.Name, w.ClientConfig)
		}
	}
	for c, err := range derived.List[admissionregistrationv1.ValidatingWebhookConfiguration](sn,
		"validatingwebhookconfigurations.admissionregistration.k8s.io", "") {
		if err != nil {
			return err
		}
		for _, w := range c.Webhooks {
			add(c.Name, w.Name, w.ClientConfig)
		}
	}
	return nil
}

// address returns the URL of a webhook's requests, without their query.
func address(cc admissionregistrationv1.WebhookClientConfig) string {
	if cc.Service == nil {
		if cc.URL == nil {
			return ""
		}
		url, _, _ := strings.Cut(*cc.URL, "?")
		return strings.TrimSuffix(url, "/")
	}
	port, path := int32(443), ""
	if cc.Service.Port != nil {
		port = *cc.Service.Port
	}
	if cc.Service.Path != nil {
		path = *cc.Service.Path
	}
	return strings.TrimSuffix(fmt.Sprintf("https://%s.%s.svc:%d%s", cc.Service.Name, cc.Service.Namespace, port, path),
		"/")
}

// RoundTrip implements http.RoundTripper.
func (h *hooks) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		return nil, err
	}
	var review struct {
		metav1.TypeMeta
		Request struct {
			UID types.UID `json:"uid"`
		} `json:"request"`
	}
	if err := json.Unmarshal(body, &review); err != nil {
		return nil, fmt.Errorf("decode admission review: %w", err)
	}
	if sent := requestOf(r.Context()); sent != nil {
		sent.calls(h.name(r))
	}
	answer, err := json.Marshal(map[string]any{
		"apiVersion": review.APIVersion, "kind": review.Kind,
		"response": map[string]any{"uid": review.Request.UID, "allowed": true},
	})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(answer)),
		Body: io.NopCloser(bytes.NewReader(answer)), Request: r,
	}, nil
}

func (h *hooks) name(r *http.Request) string {
	url := *r.URL
	url.RawQuery = ""
	at := strings.TrimSuffix(url.String(), "/")
	h.mu.Lock()
	defer h.mu.Unlock()
	if name, ok := h.names[at]; ok {
		return name
	}
	return at
}

// nowhere is the address for requests to conversion webhooks: a port on which no process listens.
const nowhere = "https://127.0.0.1:9/not-called-by-kelson-plan"

// refuseConversions makes conversions by a webhook of the cluster fail immediately.
func refuseConversions(r *store.Record, notes *[]string) error {
	if r.Key.Resource != "customresourcedefinitions.apiextensions.k8s.io" ||
		!bytes.Contains(r.Data, []byte(`"Webhook"`)) {
		return nil
	}
	crd := &unstructured.Unstructured{}
	if err := crd.UnmarshalJSON(r.Data); err != nil {
		return fmt.Errorf("decode definition %s: %w", r.Key.Name, err)
	}
	if !refuseConversion(crd) {
		return nil
	}
	*notes = append(*notes, fmt.Sprintf("the conversion webhook of %s is not called: reading these objects in a version other than the stored one fails", r.Key.Name))
	data, err := crd.MarshalJSON()
	r.Data = data
	return err
}

// refuseConversion reports whether a definition has a conversion webhook.
func refuseConversion(crd *unstructured.Unstructured) bool {
	strategy, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy")
	if strategy != string(apiextensionsv1.WebhookConverter) {
		return false
	}
	err := unstructured.SetNestedMap(crd.Object, map[string]any{"url": nowhere}, "spec", "conversion", "webhook",
		"clientConfig")
	return err == nil
}

// requestOf returns the operator's request to which a context belongs, or nil.
func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}
