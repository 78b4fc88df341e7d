package kubernetes_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/apitest"
)

func pemOf(der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}) }

func write(t *testing.T, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
}

// requestPEM returns a certificate request with a new key.
func requestPEM(t testing.TB, template *x509.CertificateRequest) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// signingRequest returns a CertificateSigningRequest for a subject.
func signingRequest(t *testing.T, name, signer string, subject pkix.Name) string {
	t.Helper()
	request := requestPEM(t, &x509.CertificateRequest{Subject: subject})
	return object("certificates.k8s.io/v1", "CertificateSigningRequest", name,
		fmt.Sprintf(`,"spec":{"signerName":%q,"usages":["client auth"],"request":%q}`,
			signer, base64.StdEncoding.EncodeToString(request)))
}

const requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

// Clients can't request the group system:masters from the signer of API clients. Approving and
// signing requests requires the permission for the signer.
func TestCertificatePlugins(t *testing.T) {
	inBubble(t, func(p plane) {
		const client = "kubernetes.io/kube-apiserver-client"
		p.refused("POST", requests, signingRequest(t, "root", client,
			pkix.Name{CommonName: "x", Organization: []string{"system:masters"}}),
			"use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed")
		p.want(201, "POST", requests, signingRequest(t, "a", client, pkix.Name{CommonName: "x"}))
		p.want(201, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles",
			object("rbac.authorization.k8s.io/v1", "ClusterRole", "requests",
				`,"rules":[{"apiGroups":["certificates.k8s.io"],"resources":["certificatesigningrequests","certificatesigningrequests/approval","certificatesigningrequests/status"],"verbs":["*"]}]`))
		p.want(201, "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
			object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", "requests",
				`,"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"requests"},"subjects":[{"kind":"User","name":"jo","apiGroup":"rbac.authorization.k8s.io"}]`))
		const approval = `{"status":{"conditions":[{"type":"Approved","status":"True","reason":"r"}]}}`
		jo := p.as("jo")
		deny := func(path, body, want string) {
			t.Helper()
			assert.Contains(t, fmt.Sprint(jo.Want(t, 403, "PATCH", path, body, merge)["message"]), want)
		}
		deny(requests+"/a/approval", approval, `user not permitted to approve requests with signerName "`+client+`"`)
		deny(requests+"/a/status", `{"status":{"conditions":[{"type":"Failed","status":"True","reason":"r"}]}}`,
			`user not permitted to sign requests with signerName "`+client+`"`)
		p.want(200, "PATCH", requests+"/a/approval", approval, merge)
	})
	inBubble(t, func(p plane) { // another signer has no rules for subjects
		created := p.want(201, "POST", requests,
			signingRequest(t, "a", "example.com/s",
				pkix.Name{CommonName: "x", Organization: []string{"system:masters"}}))
		p.wantField(created, "example.com/s", "spec", "signerName")
	})
}

// A node can request certificates only for pods that run on it and project them.
func TestNodesRequestPodCertificates(t *testing.T) {
	inBubble(t, func(p plane) {
		const path = "/apis/certificates.k8s.io/v1/namespaces/default/podcertificaterequests"
		_, key, err := ed25519.GenerateKey(nil)
		require.NoError(t, err)
		stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
		require.NoError(t, err)
		uid := func(obj apitest.Object) string { return fmt.Sprint(apitest.At(obj, "metadata", "uid")) }
		node := uid(p.want(201, "POST", "/api/v1/nodes", object("v1", "Node", "n1", "")))
		account := uid(p.want(200, "GET", ns+"/serviceaccounts/default", ""))
		const projects = `,"nodeName":%q,"volumes":[{"name":"v","projected":{"sources":[{"podCertificate":{"signerName":"example.com/s","keyType":"ED25519","credentialBundlePath":"b"}}]}}]`
		web := uid(p.want(201, "POST", ns+"/pods", pod("web", "", fmt.Sprintf(projects, "n1"))))
		far := uid(p.want(201, "POST", ns+"/pods", pod("far", "", fmt.Sprintf(projects, "n2"))))
		request := func(name, signer, pod, podUID, nodeName string) string {
			return object("certificates.k8s.io/v1", "PodCertificateRequest", name, fmt.Sprintf(`,"spec":{"signerName":%q,"podName":%q,"podUID":%q,
				"serviceAccountName":"default","serviceAccountUID":%q,"nodeName":%q,"nodeUID":%q,"stubPKCS10Request":%q}`,
				signer, pod, podUID, account, nodeName, node, base64.StdEncoding.EncodeToString(stub)))
		}
		// bypass the authorizer, which is not under test
		kubelet := p.as("system:node:n1", "system:nodes", "system:masters")
		for body, why := range map[string]string{
			request("a", "example.com/s", "far", far,
				"n1"): `pod "default/far" is not running on node "n1" named in the PodCertificateRequest`,
			request("a", "example.com/s", "far", far, "n2"): `which is not the requesting node "n1"`,
		} {
			assert.Contains(t, fmt.Sprint(kubelet.Want(t, 403, "POST", path, body)["message"]), why)
		}
		// the plugin may not have received the pod yet
		kubelet.Want(t, 500, "POST", path, request("a", "example.com/s", "web", far, "n1"))
		kubelet.Want(t, 201, "POST", path, request("a", "example.com/s", "web", web, "n1"))
		p.as("system:node:n1", "system:nodes").Want(t, 403, "POST", path,
			request("b", "example.com/t", "web", web, "n1"))
		p.want(201, "POST", path, request("c", "example.com/t", "far", far, "n2")) // without a node
	}, "NodeRestriction")
}
