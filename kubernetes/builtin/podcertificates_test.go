package builtin

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// podRequest returns the body of a PodCertificateRequest for a key, and a certificate of that key.
func podRequest(t *testing.T, name string) (body string, certificate func(begin time.Time,
	lifetime time.Duration) string) {
	t.Helper()
	public, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	require.NoError(t, err)
	body = fmt.Sprintf(`{metadata: {name: %s}, spec: {signerName: example.com/s, podName: web, podUID: uid-p, serviceAccountName: default, serviceAccountUID: uid-s,
		nodeName: n1, nodeUID: uid-n, unverifiedUserAnnotations: {example.com/name: web}, stubPKCS10Request: %s}}`, name, base64.StdEncoding.EncodeToString(request))
	return body, func(begin time.Time, lifetime time.Duration) string {
		leaf := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: begin, NotAfter: begin.Add(lifetime)}
		der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, public, key)
		require.NoError(t, err)
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
}

// issued returns a status with an issued certificate.
func issued(chain string, begin time.Time, lifetime time.Duration) string {
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	return fmt.Sprintf(`{"status": {"certificateChain": %q, "notBefore": %q, "beginRefreshAt": %q, "notAfter": %q,
		"conditions": [{"type": "Issued", "status": "True", "reason": "Signed", "message": "here it is", "lastTransitionTime": %q}]}}`,
		chain, at(begin), at(begin.Add(lifetime/2)), at(begin.Add(lifetime)), at(begin))
}

// A kubelet requests a certificate for a pod. Only a user with permission to sign for the signer
// can issue it, and only once.
func TestPodCertificateRequests(t *testing.T) {
	signs := authorizer.DecisionNoOpinion
	var asked []string
	s := serve(t, Config{Authorizer: authorizer.AuthorizerFunc(func(_ context.Context,
		a authorizer.Attributes) (authorizer.Decision, string, error) {
		asked = append(asked, strings.Join([]string{a.GetVerb(), a.GetAPIGroup(), a.GetResource(), a.GetName()}, " "))
		return signs, "", nil
	})})
	const path = "/apis/certificates.k8s.io/v1/namespaces/default/podcertificaterequests"
	body, certificate := podRequest(t, "r")
	msg := s.refused(422, "Invalid", "POST", path, strings.Replace(body, "signerName: example.com/s, ", "", 1))
	assert.Containsf(t, msg, "spec.signerName", "message")
	msg = s.refused(422, "Invalid", "POST", path, strings.Replace(body, "stubPKCS10Request", "none", 1))
	if !strings.Contains(msg, "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set") {
		t.Errorf("message %s", msg)
	}
	created := s.do(201, "POST", path, body)
	want(t, "default", str(created, "spec", "maxExpirationSeconds"), "86400")

	begin := time.Now().Truncate(time.Second)
	good := issued(certificate(begin, 2*time.Hour), begin, 2*time.Hour)
	msg = s.refused(422, "Invalid", "PATCH", path+"/r/status", good)
	assert.Containsf(t, msg, `User "admin" is not permitted to "sign" for signer "example.com/s"`, "message")
	want(t, "questions", strings.Join(asked, "; "),
		"sign certificates.k8s.io signers example.com/s; sign certificates.k8s.io signers example.com/*")
	signs = authorizer.DecisionAllow
	_, others := podRequest(t, "other")
	for name, status := range map[string]string{
		"leaf certificate was not issued to the requested public key": issued(others(begin, 2*time.Hour), begin,
			2*time.Hour),
		"leaf certificate lifetime must be >= 1 hour": issued(certificate(begin, time.Minute),
			begin, time.Minute),
		"must be set to within 5 minutes of kube-apiserver's current time": issued(certificate(begin.Add(time.Hour),
			2*time.Hour), begin.Add(time.Hour), 2*time.Hour),
	} {
		assert.Contains(t, s.refused(422, "Invalid", "PATCH", path+"/r/status", status), name)
	}
	s.do(200, "PATCH", path+"/r", good) // the main resource does not change the status
	want(t, "status", str(s.do(200, "GET", path+"/r", ""), "status", "certificateChain"), "")
	if chain := str(s.do(200, "PATCH", path+"/r/status", good), "status", "certificateChain"); !strings.HasPrefix(chain,
		"-----BEGIN CERTIFICATE-----") {
		t.Errorf("chain %q", chain)
	}
	msg = s.refused(422, "Invalid", "PATCH", path+"/r/status",
		`{"status": {"conditions": [{"type": "Issued", "status": "True", "reason": "Again", "message": "m"}]}}`)
	assert.Containsf(t, msg, "immutable after PodCertificateRequest is issued, denied, or failed", "message")
	s.refused(422, "Invalid", "PATCH", path+"/r", `{"spec": {"signerName": "example.com/t"}}`)
}

// Clients can select PodCertificateRequests by their fields.
func TestSelectPodCertificateRequests(t *testing.T) {
	s := serve(t, Config{})
	const path = "/apis/certificates.k8s.io/v1/namespaces/default/podcertificaterequests"
	body, _ := podRequest(t, "r")
	s.do(201, "POST", path, body)
	for selector, want := range map[string]bool{
		"spec.nodeName=n1": true, "spec.nodeName=n2": false, "spec.podName=web": true,
		"spec.signerName=example.com/s": true, "spec.signerName=example.com/t": false,
	} {
		list := s.do(200, "GET", path+"?fieldSelector="+selector, "")
		assert.Equalf(t, strings.Contains(str(list, "items"), `"name":"r"`), want, "%s", selector)
	}
	msg := s.refused(400, "BadRequest", "GET", path+"?fieldSelector=spec.podUID=p", "")
	assert.Containsf(t, msg, "field label not supported: spec.podUID", "message")
	text := s.send("GET", path, "", "application/json;as=Table;v=v1;g=meta.k8s.io").Body.String()
	for _, part := range []string{`"name":"UnverifiedUserAnnotations"`,
		`["r","web","default","n1","example.com/s","Pending","example.com/name=web"]`} {
		if !strings.Contains(text, part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
}
