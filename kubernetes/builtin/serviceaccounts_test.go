package builtin

import (
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/tokens"
)

const tokenOf = "/api/v1/namespaces/default/serviceaccounts/robot/token"

// withTokens serves the kinds with an account "robot" in the namespace default.
func withTokens(t *testing.T) (*server, *tokens.Issuer) {
	t.Helper()
	st, err := store.Open(store.Config{})
	require.NoError(t, err)
	issuer, err := tokens.New(tokens.Config{Store: st})
	require.NoError(t, err)
	s := serveStore(t, Config{Tokens: issuer}, st)
	s.do(http.StatusCreated, http.MethodPost, "/api/v1/namespaces/default/serviceaccounts",
		"{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot}}")
	return s, issuer
}

func tokenBody(more string) string {
	return "{apiVersion: authentication.k8s.io/v1, kind: TokenRequest" + more + "}"
}

// A token request returns a token that authenticates the service account, for the requested
// audiences and duration. A token for another audience is refused.
func TestTokenRequest(t *testing.T) {
	s, issuer := withTokens(t)
	begin := time.Now()
	answer := s.do(http.StatusCreated, http.MethodPost, tokenOf, tokenBody(""))
	resp, ok, err := issuer.AuthenticateToken(t.Context(), str(answer, "status", "token"))
	if err != nil || !ok || resp.User.GetName() != "system:serviceaccount:default:robot" {
		t.Errorf("%v %v %v", resp, ok, err)
	}
	want(t, "kind", answer.GroupVersionKind().String(), tokenRequest.String())
	want(t, "name", answer.GetNamespace()+"/"+answer.GetName(), "default/robot")
	if owned := answer.GetManagedFields(); len(owned) != 1 || owned[0].Subresource != "token" ||
		owned[0].APIVersion != "authentication.k8s.io/v1" ||
		string(owned[0].FieldsV1.Raw) != `{"f:spec":{"f:expirationSeconds":{}}}` {
		t.Errorf("managedFields: %v", owned)
	}
	want(t, "audiences", str(answer, "spec", "audiences"), `["`+tokens.DefaultIssuer+`"]`)
	want(t, "expirationSeconds", str(answer, "spec", "expirationSeconds"), "3600")
	expires, err := time.Parse(time.RFC3339, str(answer, "status", "expirationTimestamp"))
	if left := expires.Sub(begin); err != nil || left < 59*time.Minute || left > 61*time.Minute {
		t.Errorf("it expires at %v: %v", expires, err)
	}
	answer = s.do(http.StatusCreated, http.MethodPost, tokenOf,
		tokenBody(", spec: {audiences: [vault], expirationSeconds: 600}"))
	if _, ok, _ := issuer.AuthenticateToken(t.Context(), str(answer, "status", "token")); ok {
		t.Error("a token for another audience is accepted")
	}
	want(t, "expirationSeconds", str(answer, "spec", "expirationSeconds"), "600")
}

// Durations out of range, names and UIDs that do not match, and wrong bound objects are refused
// with status and reason.
func TestTokenRequestIsRefused(t *testing.T) {
	s, _ := withTokens(t)
	s.do(http.StatusCreated, http.MethodPost, "/api/v1/namespaces/default/secrets",
		"{apiVersion: v1, kind: Secret, metadata: {name: key}}")
	s.do(http.StatusCreated, http.MethodPost, "/api/v1/namespaces/default/pods",
		"{apiVersion: v1, kind: Pod, metadata: {name: other}, spec: {serviceAccountName: other, containers: [{name: c, image: i}]}}")
	for _, test := range []struct {
		body    string
		code    int
		reason  metav1.StatusReason
		message string
	}{
		{", spec: {expirationSeconds: 599}", 422, metav1.StatusReasonInvalid,
			"may not specify a duration less than 10 minutes"},
		{", spec: {expirationSeconds: 4294967297}", 422, metav1.StatusReasonInvalid,
			"may not specify a duration larger than 2^32 seconds"},
		{", metadata: {name: x}", 422, metav1.StatusReasonInvalid, "must match the service account name if specified"},
		{", metadata: {uid: x}", 409, metav1.StatusReasonConflict, "does not match the UID of the service account"},
		{", spec: {boundObjectRef: {apiVersion: v1, kind: ConfigMap, name: x}}", 400, metav1.StatusReasonBadRequest,
			"cannot bind token to object of type /v1, Kind=ConfigMap"},
		{", spec: {boundObjectRef: {apiVersion: v1, kind: Secret, name: x}}", 404, metav1.StatusReasonNotFound,
			`secrets "x" not found`},
		{", spec: {boundObjectRef: {apiVersion: v1, kind: Secret, name: key, uid: x}}", 409,
			metav1.StatusReasonConflict, "The object might have been deleted and then recreated"},
		{", spec: {boundObjectRef: {apiVersion: v1, kind: Pod, name: other}}", 400, metav1.StatusReasonBadRequest,
			"different serviceaccount name"},
	} {
		got := s.refused(test.code, test.reason, http.MethodPost, tokenOf,
			tokenBody(test.body))
		assert.Containsf(t, got, test.message, "%s", test.body)
	}
	s.refused(404, metav1.StatusReasonNotFound, http.MethodPost, strings.Replace(tokenOf, "robot", "nobody", 1),
		tokenBody(""))
}

// The token of a Pod carries its name and UID and the name of its node, although the node does not
// exist.
func TestTokenOfAPod(t *testing.T) {
	s, issuer := withTokens(t)
	pod := s.do(http.StatusCreated, http.MethodPost, "/api/v1/namespaces/default/pods",
		"{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {nodeName: gone, serviceAccountName: robot, containers: [{name: c, image: i}]}}")
	answer := s.do(http.StatusCreated, http.MethodPost, tokenOf,
		tokenBody(", spec: {boundObjectRef: {apiVersion: v1, kind: Pod, name: web, uid: "+string(pod.GetUID())+"}}"))
	resp, ok, err := issuer.AuthenticateToken(t.Context(), str(answer, "status", "token"))
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	extra := map[string]any{}
	for k, v := range resp.User.GetExtra() {
		extra[strings.TrimPrefix(k, "authentication.kubernetes.io/")] = v[0]
	}
	u := &unstructured.Unstructured{Object: extra}
	want(t, "pod", str(u, "pod-name")+" "+str(u, "pod-uid"), "web "+string(pod.GetUID()))
	want(t, "node", str(u, "node-name"), "gone")
}
