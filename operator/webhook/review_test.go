package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/webhook"
)

func meta(key client.Key) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
}

// rules default and validate ConfigMaps.
type rules struct{}

func (rules) Default(ctx context.Context, cm *corev1.ConfigMap) error {
	req, ok := webhook.RequestFrom(ctx)
	if !ok || req.UserInfo.Username == "" {
		return errors.New("the request has no user")
	}
	if cm.Data["panic"] != "" {
		panic("requested panic")
	}
	if cm.Labels == nil {
		cm.Labels = map[string]string{"by": req.UserInfo.Username}
	}
	return nil
}

func (rules) ValidateCreate(_ context.Context, cm *corev1.ConfigMap) (webhook.Warnings, error) {
	if len(cm.Data) == 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, cm.Name, nil)
	}
	return webhook.Warnings{"created"}, nil
}

func (rules) ValidateUpdate(_ context.Context, old, cm *corev1.ConfigMap) (webhook.Warnings, error) {
	if old.Data["keep"] != cm.Data["keep"] {
		return webhook.Warnings{"think"}, errors.New("data.keep must not change")
	}
	return nil, nil
}

func (rules) ValidateDelete(_ context.Context, cm *corev1.ConfigMap) (webhook.Warnings, error) {
	return nil, fmt.Errorf("%s stays", cm.Name)
}

func review(operation, object, old string) string {
	return fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"7","operation":%q,"userInfo":{"username":"jo"},
		"object":%s,"oldObject":%s}}`, operation, object, old)
}

func post(t *testing.T, h http.Handler, body string) (int, *admissionv1.AdmissionReview) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/x", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	answer := &admissionv1.AdmissionReview{}
	require.NoErrorf(t, json.Unmarshal(w.Body.Bytes(), answer), "%s", w.Body)
	return w.Code, answer
}

// Each review gets its decision, patch, status and warnings. Malformed reviews get a status, not an
// HTTP error.
func TestReview(t *testing.T) {
	mutate, validate := webhook.Review(webhook.Default[corev1.ConfigMap](rules{})),
		webhook.Review(webhook.Validate[corev1.ConfigMap](rules{}))
	for _, tt := range []struct {
		name    string
		h       http.Handler
		body    string
		allowed bool
		patch   string
		status  string // code, reason, message
		warn    string
	}{
		{name: "defaulted", h: mutate, body: review("CREATE", `{"metadata":{"name":"a"}}`, "null"), allowed: true,
			patch: `[{"op":"add","path":"/metadata/labels","value":{"by":"jo"}}]`},
		{name: "nothing to default", h: mutate, body: review("UPDATE", `{"metadata":{"labels":{"a":"b"}}}`, "{}"),
			allowed: true},
		{name: "deletions are not defaulted", h: mutate, body: review("DELETE", "null", `{"metadata":{"name":"a"}}`),
			allowed: true},
		{name: "unowned", h: mutate, body: strings.Replace(review("CREATE", "{}", "null"), "jo", "", 1),
			status: "403 Forbidden the request has no user"},
		{name: "panic", h: mutate, body: review("CREATE", `{"data":{"panic":"x"}}`, "null"),
			status: "500  panic: requested panic"},
		{name: "created", h: validate, body: review("CREATE", `{"data":{"a":"b"}}`, "null"), allowed: true,
			warn: "created"},
		{name: "invalid", h: validate, body: review("CREATE", `{"metadata":{"name":"a"}}`, "null"),
			status: `422 Invalid ConfigMap "a" is invalid`},
		{name: "changed", h: validate, body: review("UPDATE", `{"data":{"keep":"2"}}`, `{"data":{"keep":"1"}}`),
			status: "403 Forbidden data.keep must not change", warn: "think"},
		{name: "kept", h: validate, body: review("UPDATE", `{"data":{"keep":"1"}}`, `{"data":{"keep":"1"}}`),
			allowed: true},
		{name: "deleted", h: validate, body: review("DELETE", "null", `{"metadata":{"name":"a"}}`),
			status: "403 Forbidden a stays"},
		{name: "connect", h: validate, body: review("CONNECT", "{}", "null"), allowed: true},
		{name: "no ConfigMap", h: validate, body: review("CREATE", `{"data":7}`, "null"),
			status: "400  decode *v1.ConfigMap: "},
		{name: "no request", h: validate, body: `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`,
			status: "400  the AdmissionReview has no request"},
		{name: "no JSON", h: validate, body: `{`, status: "400  decode review: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, answer := post(t, tt.h, tt.body)
			resp := answer.Response
			if code != 200 || resp == nil || resp.Allowed != tt.allowed || string(resp.Patch) != tt.patch ||
				strings.Join(resp.Warnings, ",") != tt.warn {
				t.Fatalf("got %d %+v", code, resp)
			}
			assert.Equalf(t, tt.patch != "", resp.PatchType != nil, "patch type %v", resp.PatchType)
			if tt.status != "" {
				got := fmt.Sprintf("%d %s %s", resp.Result.Code, resp.Result.Reason, resp.Result.Message)
				if !strings.HasPrefix(got, tt.status) {
					t.Errorf("got %q, want %q", got, tt.status)
				}
			}
			if answer.Kind != "AdmissionReview" || answer.APIVersion != "admission.k8s.io/v1" ||
				resp.UID != "7" && strings.Contains(tt.body, `"uid"`) {
				t.Errorf("got %+v", answer)
			}
		})
	}
}

// A review of an older version gets a response in that version.
func TestReviewResponseHasRequestVersion(t *testing.T) {
	body := strings.Replace(review("CREATE", "{}", "null"), "admission.k8s.io/v1", "admission.k8s.io/v1beta1", 1)
	_, answer := post(t, webhook.Review(webhook.HandlerFunc(func(context.Context, webhook.Request) webhook.Response {
		return webhook.Allowed("w")
	})), body)
	if answer.APIVersion != "admission.k8s.io/v1beta1" || !answer.Response.Allowed {
		t.Errorf("got %+v", answer)
	}
}

// The paths have the form of kubebuilder's, with dots as dashes.
func TestPaths(t *testing.T) {
	at := schema.GroupVersionKind{Group: "cnat.programming-kubernetes.info", Version: "v1alpha1", Kind: "At"}
	pod := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	for got, want := range map[string]string{
		webhook.MutatePath(at):    "/mutate-cnat-programming-kubernetes-info-v1alpha1-at",
		webhook.ValidatePath(at):  "/validate-cnat-programming-kubernetes-info-v1alpha1-at",
		webhook.ValidatePath(pod): "/validate--v1-pod",
	} {
		assert.Equal(t, got, want)
	}
}
