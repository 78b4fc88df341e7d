package kubernetes_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// review is the request of a received AdmissionReview.
type review = admissionv1.AdmissionRequest

// hookServer is a webhook on a loopback port, over TLS with a certificate for some names.
type hookServer struct {
	*httptest.Server
	ca     []byte
	answer func(*review) *admissionv1.AdmissionResponse

	mu   sync.Mutex
	seen []*review
	open map[net.Conn]bool

	closed *sync.Cond
}

// certificate is shared by all webhooks, because creating a key takes longer than all their calls.
var certificate = sync.OnceValues(func() (tls.Certificate, error) { return newCertificate() })

func newCertificate() (tls.Certificate, error) {
	chain, key, err := cert.GenerateSelfSignedCertKey("webhook", []net.IP{net.IPv4(127, 0, 0, 1)},
		[]string{"hook.default.svc"})
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(chain, key)
}

func newHook(t *testing.T, answer func(*review) *admissionv1.AdmissionResponse) *hookServer {
	t.Helper()
	h := &hookServer{answer: answer, open: map[net.Conn]bool{}}
	h.closed = sync.NewCond(&h.mu)
	pair, err := certificate()
	require.NoError(t, err)
	h.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[len(pair.Certificate)-1]})
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(h.serve))
	h.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	h.Config.ConnState = func(c net.Conn, state http.ConnState) {
		h.mu.Lock()
		defer h.mu.Unlock()
		switch state {
		case http.StateNew:
			h.open[c] = true
		case http.StateClosed:
			delete(h.open, c)
			h.closed.Broadcast()
		}
	}
	h.StartTLS()
	t.Cleanup(h.Close)
	return h
}

func (h *hookServer) serve(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	in := &admissionv1.AdmissionReview{}
	if err == nil {
		err = json.Unmarshal(body, in)
	}
	if err != nil || in.Request == nil {
		http.Error(w, "not a review", http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.seen = append(h.seen, in.Request)
	h.mu.Unlock()
	out := h.answer(in.Request)
	if out == nil {
		http.Error(w, "it is broken", http.StatusInternalServerError)
		return
	}
	out.UID = in.Request.UID
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(admissionv1.AdmissionReview{TypeMeta: in.TypeMeta, Response: out})
}

// reviews returns the reviews since the last call.
func (h *hookServer) reviews() []*review {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := h.seen
	h.seen = nil
	return seen
}

// connections returns the number of open connections.
func (h *hookServer) connections() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.open)
}

// waitForNoConnection returns when all connections are closed; otherwise, the test times out.
func (h *hookServer) waitForNoConnection(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.open) > 0 {
		h.closed.Wait()
	}
}

func allow(*review) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Allowed: true}
}

func deny(*review) *admissionv1.AdmissionResponse {
	return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: "not today"}}
}

func patched(patch string) func(*review) *admissionv1.AdmissionResponse {
	return func(*review) *admissionv1.AdmissionResponse {
		kind := admissionv1.PatchTypeJSONPatch
		return &admissionv1.AdmissionResponse{Allowed: true, Patch: []byte(patch), PatchType: &kind}
	}
}

// hookClients are an administrator's clients of a control plane.
type hookClients struct {
	plane *controlplane.ControlPlane
	*kubernetes.Clientset
	dynamic *dynamic.DynamicClient
}

func startWebhook(t *testing.T) *hookClients { return startWith(t, controlplane.Config{}) }

func startWith(t *testing.T, cfg controlplane.Config) *hookClients {
	t.Helper()
	plane := startPlane(t, cfg)
	c := clientsOf(t, plane, plane.RESTConfig())
	if cfg.Controllers == nil {
		awaitServiceAccounts(t, plane)
		awaitServiceCIDR(t, c)
	}
	return c
}

// awaitServiceCIDR waits until the controller has written the status of the default ServiceCIDR,
// for the same reason.
func awaitServiceCIDR(t *testing.T, c *hookClients) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cidrs := c.NetworkingV1().ServiceCIDRs()
	list, err := cidrs.List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	for _, cidr := range list.Items {
		if len(cidr.Status.Conditions) > 0 {
			return
		}
	}
	w, err := cidrs.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	require.NoError(t, err)
	defer w.Stop()
	for event := range w.ResultChan() {
		if cidr, ok := event.Object.(*networkingv1.ServiceCIDR); ok && len(cidr.Status.Conditions) > 0 {
			return
		}
	}
	t.Fatal("no ServiceCIDR has a condition")
}

// awaitServiceAccounts waits until all initial namespaces have their service accounts, so that
// webhooks receive only the requests of the test.
func awaitServiceAccounts(t *testing.T, plane *controlplane.ControlPlane) {
	t.Helper()
	for st := plane.Store(); ; {
		sn := st.Snapshot()
		if sn.Count("serviceaccounts", "") >= sn.Count("namespaces", "") {
			return
		}
		cursor, err := st.Watch("serviceaccounts", sn.Revision())
		require.NoError(t, err)
		select {
		case <-cursor.Ready():
		case <-time.After(time.Minute):
			t.Fatal("the namespaces have no service accounts")
		}
	}
}

func clientsOf(t *testing.T, plane *controlplane.ControlPlane, cfg *rest.Config) *hookClients {
	t.Helper()
	c := &hookClients{plane: plane}
	var err error
	c.Clientset, err = kubernetes.NewForConfig(cfg)
	require.NoError(t, err)
	c.dynamic, err = dynamic.NewForConfig(cfg)
	require.NoError(t, err)
	return c
}

// everything is a rule that matches all requests.
var everything = admissionregistrationv1.RuleWithOperations{
	Operations: []admissionregistrationv1.OperationType{"*"},
	Rule: admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"},
		Resources: []string{"*/*"}},
}

func rule(op, group, version, resource string) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationType(op)},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version},
			Resources: []string{resource}},
	}
}

func ptr[T any](v T) *T { return &v }

// validating creates a configuration with one webhook and returns it.
func (c *hookClients) validating(t *testing.T, name string, h *hookServer, rule admissionregistrationv1.RuleWithOperations,
	edits ...func(*admissionregistrationv1.ValidatingWebhook)) *admissionregistrationv1.ValidatingWebhookConfiguration {
	t.Helper()
	hook := admissionregistrationv1.ValidatingWebhook{
		Name: name + ".kelson.dev", Rules: []admissionregistrationv1.RuleWithOperations{rule},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr(h.URL + "/" + name),
			CABundle: h.ca},
		SideEffects:             ptr(admissionregistrationv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"},
	}
	for _, edit := range edits {
		edit(&hook)
	}
	made, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(),
		&admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionregistrationv1.ValidatingWebhook{hook},
		}, metav1.CreateOptions{})
	require.NoError(t, err)
	return made
}

// mutating creates a configuration with one webhook.
func (c *hookClients) mutating(t *testing.T, name string, h *hookServer, rule admissionregistrationv1.RuleWithOperations,
	edits ...func(*admissionregistrationv1.MutatingWebhook)) {
	t.Helper()
	hook := admissionregistrationv1.MutatingWebhook{
		Name: name + ".kelson.dev", Rules: []admissionregistrationv1.RuleWithOperations{rule},
		ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr(h.URL + "/" + name),
			CABundle: h.ca},
		SideEffects:             ptr(admissionregistrationv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"},
	}
	for _, edit := range edits {
		edit(&hook)
	}
	_, err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(),
		&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionregistrationv1.MutatingWebhook{hook},
		}, metav1.CreateOptions{})
	require.NoError(t, err)
}
