package controlplane_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/apiserver/admission"
	"kelson.dev/apiserver/audit"
	"kelson.dev/apiserver/authn"
	"kelson.dev/apiserver/authz"
	"kelson.dev/apiserver/pki"
	"kelson.dev/apiserver/store/encrypted"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/authorizers"
	"kelson.dev/kubernetes/controlplane"
)

var anybody = &user.DefaultInfo{Name: "anybody", Groups: []string{user.AllAuthenticated}}

// FuzzCredentials checks that invalid credentials never cause a panic and are always rejected.
func FuzzCredentials(f *testing.F) {
	dir := f.TempDir()
	tokens, authority := filepath.Join(dir, "tokens.csv"), filepath.Join(dir, "ca.crt")
	ca, err := pki.NewAuthority("clients")
	require.NoError(f, err)
	write(f, tokens, []byte("letmein,jane,7\n"))
	write(f, authority, ca.PEM)
	plane := start(f, controlplane.Config{Controllers: controlplane.NoControllers{}, ClientCAs: ca.Pool(),
		Authentication: controlplane.Authentication{
			AcceptBootstrapTokens: true, Config: authn.Config{
				TokenFile: tokens, OIDC: &authn.OIDC{IssuerURL: "https://127.0.0.1:1", ClientID: "kelson",
					CAFile: authority},
				RequestHeader: &authn.RequestHeader{ClientCAFile: authority, AllowedNames: []string{"proxy"},
					Usernames: []string{"X-Remote-User"}, Groups: []string{"X-Remote-Group"},
					ExtraPrefixes: []string{"X-Remote-Extra-"}},
			},
		}})
	pair, err := ca.Client("root", user.SystemPrivilegedGroup)
	require.NoError(f, err)
	block, _ := pem.Decode(pair.CertPEM)
	for _, token := range []string{
		"", " ", "Bearer", "Bearer ", "bearer  x", "Basic bGV0bWVpbg==", "Bearer letmein x", "Bearer a.b.c",
		"Bearer ...", "Bearer aaaaaa.0123456789abcdef",
		"Bearer eyJhbGciOiJub25lIn0.e30.", "Bearer eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJodHRwczovL2t1YmVybmV0ZXMuZGVmYXVsdC5zdmMuY2x1c3Rlci5sb2NhbCJ9.AA",
	} {
		f.Add(token, "X-Remote-User", "root", []byte(nil))
		f.Add(token, "Impersonate-User", "root", []byte("x"))
		f.Add(token, "X-Remote-Extra-%zz", "%", block.Bytes[:len(block.Bytes)-1])
	}
	f.Add("", "Impersonate-Group", user.SystemPrivilegedGroup,
		slices.Concat(block.Bytes[:200], []byte("x"), block.Bytes[201:]))
	f.Fuzz(func(t *testing.T, authorization, header, value string, der []byte) {
		req := httptest.NewRequest("GET", "/api/v1/secrets", nil)
		if authorization != "" {
			req.Header["Authorization"] = []string{authorization}
		}
		req.Header[http.CanonicalHeaderKey(header)] = append(req.Header[http.CanonicalHeaderKey(header)], value)
		if len(der) > 0 {
			leaf, err := x509.ParseCertificate(der)
			if err != nil {
				leaf = &x509.Certificate{Raw: der}
			}
			if bytes.Equal(der, block.Bytes) {
				t.Skip("valid credentials")
			}
			req.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
		}
		w := httptest.NewRecorder()
		plane.Handler().ServeHTTP(w, req)
		switch w.Code {
		case http.StatusUnauthorized, http.StatusForbidden:
		case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusInternalServerError:
			// impersonation of an invalid user
			if !strings.HasPrefix(http.CanonicalHeaderKey(header), "Impersonate-") ||
				strings.Contains(w.Body.String(), "panic") {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		default:
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// FuzzReviews checks that reviews with any content never cause a panic, and that invalid tokens
// authenticate no user.
func FuzzReviews(f *testing.F) {
	plane := start(f, controlplane.Config{Controllers: controlplane.NoControllers{}})
	root := &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}
	kinds := []struct{ path, body string }{
		{"/apis/authentication.k8s.io/v1/tokenreviews", `{"spec":{"token":"a.b.c","audiences":["x"]}}`},
		{"/apis/authentication.k8s.io/v1/selfsubjectreviews", `{"status":{"userInfo":{"username":"root"}}}`},
		{"/apis/authorization.k8s.io/v1/subjectaccessreviews", `{"spec":{"user":"u","groups":["g"],"extra":{"k":["v"]},"resourceAttributes":{"verb":"get","resource":"pods",
			"labelSelector":{"rawSelector":"a in (b)"},"fieldSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]}]}}}}`},
		{"/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
			`{"metadata":{"namespace":"default"},"spec":{"user":"u","resourceAttributes":{"namespace":"default"}}}`},
		{"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			`{"spec":{"nonResourceAttributes":{"path":"/x","verb":"*"}}}`},
		{"/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", `{"spec":{"namespace":"default"}}`},
		{"/api/v1/namespaces/default/serviceaccounts/default/token",
			`{"spec":{"audiences":["a"],"expirationSeconds":600,"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p","uid":"u"}}}`},
	}
	for i, k := range kinds {
		f.Add(uint8(i), k.body)
	}
	for _, body := range []string{`{}`, `{"spec":null}`, `{"spec":{"token":""}}`,
		`{"spec":{"resourceAttributes":{},"nonResourceAttributes":{}}}`, `[`, `{"spec":{"extra":{"":[]}}}`} {
		for i := range kinds {
			f.Add(uint8(i), body)
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, body string) {
		path := kinds[int(kind)%len(kinds)].path
		for _, who := range []user.Info{root, anybody} {
			code, answer := ask(t, plane, who, "POST", path, body)
			if code >= 500 || strings.Contains(answer, "panic") {
				t.Errorf("%s: %d %s", path, code, answer)
			}
			var review struct {
				Status struct {
					Authenticated bool `json:"authenticated"`
					UserInfo      struct {
						Username string `json:"username"`
					} `json:"userInfo"`
				} `json:"status"`
			}
			if code == http.StatusCreated && json.Unmarshal([]byte(answer), &review) == nil {
				if review.Status.Authenticated {
					t.Errorf("a token is accepted: %s", body)
				}
				if strings.HasSuffix(path, "selfsubjectreviews") && review.Status.UserInfo.Username != who.GetName() {
					t.Errorf("%s is %s", who.GetName(), review.Status.UserInfo.Username)
				}
			}
		}
	})
}

// FuzzSigningRequest checks that no approved signing request yields a certificate of an
// administrator or a certificate authority.
func FuzzSigningRequest(f *testing.F) {
	ca, err := pki.NewAuthority("signer")
	require.NoError(f, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(f, err)
	for i, subject := range []pkix.Name{
		{CommonName: "ann"}, {CommonName: "root", Organization: []string{user.SystemPrivilegedGroup}},
		{CommonName: "system:node:n", Organization: []string{"system:nodes"}},
	} {
		der, err := x509.CreateCertificateRequest(rand.Reader,
			&x509.CertificateRequest{Subject: subject, DNSNames: []string{"a"}[:i%2]}, key)
		require.NoError(f, err)
		for signer := range uint8(4) {
			f.Add(signer, "client auth", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
		}
		f.Add(uint8(i), "server auth", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST",
			Bytes: der[:len(der)-5]}))
	}
	f.Add(uint8(0), "any", []byte("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----"))
	signers := []string{"kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet",
		"kubernetes.io/kubelet-serving", "kubernetes.io/legacy-unknown"}
	const path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	root := &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}
	f.Fuzz(func(t *testing.T, signer uint8, usage string, request []byte) {
		body := text(map[string]any{
			"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
			"metadata": map[string]any{"name": "r"},
			"spec": map[string]any{"request": request, "signerName": signers[int(signer)%len(signers)],
				"usages": []string{"digital signature", usage}},
		})
		synctest.Test(t, func(t *testing.T) {
			plane := start(t, controlplane.Config{Authority: ca})
			code, answer := ask(t, plane, root, "POST", path, string(body))
			if code >= 500 || strings.Contains(answer, "panic") {
				t.Fatalf("%d %s", code, answer)
			}
			if code != http.StatusCreated {
				return
			}
			synctest.Wait() // until the kubelet approver has seen the request
			_, answer = ask(t, plane, root, "GET", path+"/r", "")
			var created map[string]any
			require.NoError(t, json.Unmarshal([]byte(answer), &created))
			created["status"] = map[string]any{
				"conditions": []any{map[string]any{"type": "Approved", "status": "True", "reason": "r"}}}
			if code, answer = ask(t, plane, root, "PUT", path+"/r/approval",
				string(text(created))); code != http.StatusOK {
				t.Fatalf("%d %s", code, answer)
			}
			synctest.Wait()
			_, answer = ask(t, plane, root, "GET", path+"/r", "")
			var signed struct {
				Status struct {
					Certificate []byte `json:"certificate"`
				} `json:"status"`
			}
			require.NoError(t, json.Unmarshal([]byte(answer), &signed))
			block, _ := pem.Decode(signed.Status.Certificate)
			if block == nil {
				return
			}
			certificate, err := x509.ParseCertificate(block.Bytes)
			require.NoErrorf(t, err, "the signed certificate is invalid")
			if certificate.IsCA || signer%4 != 3 && slices.Contains(certificate.Subject.Organization,
				user.SystemPrivilegedGroup) {
				t.Errorf("signed: %v, authority: %v", certificate.Subject, certificate.IsCA)
			}
		})
	})
}

// FuzzAnswers checks that a webhook's response never causes a panic, and that only an explicit
// approval lets a request pass.
func FuzzAnswers(f *testing.F) {
	var body []byte
	var uid string // of the last review
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var review struct {
			Request struct {
				UID string `json:"uid"`
			} `json:"request"`
		}
		_ = json.NewDecoder(req.Body).Decode(&review)
		uid = review.Request.UID
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(bytes.ReplaceAll(body, []byte("UID"), []byte(uid)))
	}))
	defer server.Close()
	bundle := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: server.Certificate().Raw}))
	kubeconfig := filepath.Join(f.TempDir(), "kubeconfig")
	write(f, kubeconfig, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q,"certificate-authority-data":%q}}],
		"users":[{"name":"u","user":{}}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"current-context":"x"}`, server.URL, bundle))
	plane := start(f, controlplane.Config{
		Controllers: controlplane.NoControllers{},
		Authentication: controlplane.Authentication{
			Config: authn.Config{Webhook: &authn.Webhook{ConfigFile: kubeconfig, Version: "v1"}}},
		Authorization: controlplane.Authorization{Modes: []string{"RBAC", "Webhook"},
			Webhook: authz.Webhook{ConfigFile: kubeconfig, Version: "v1"}},
	})
	root := &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}
	for _, kind := range []string{"Validating", "Mutating"} {
		hook := fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"%[1]sWebhookConfiguration","metadata":{"name":"h"},"webhooks":[{"name":"h.example.com",
			"sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{"url":"%[2]s","caBundle":"%[3]s"},"objectSelector":{"matchLabels":{"by":"%[1]s"}},
			"rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE"]}]}]}`, kind, server.URL, bundle)
		if code, answer := ask(f, plane, root, "POST", "/apis/admissionregistration.k8s.io/v1/"+strings.ToLower(kind)+
			"webhookconfigurations", hook); code != http.StatusCreated {
			f.Fatalf("%d %s", code, answer)
		}
	}
	for _, answer := range []string{
		"", "null", "{}", "[]", "x", `{"status":{}}`,
		`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":true,"user":{"username":"zoe","groups":["g"],"extra":{"k":["v"]}},"audiences":["a"]}}`,
		`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","status":{"authenticated":false,"error":"no"}}`,
		`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":true,"denied":true,"reason":"r","evaluationError":"e"}}`,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"UID","allowed":true,"warnings":["w"],"auditAnnotations":{"k":"v"}}}`,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"UID","allowed":false,"status":{"code":-1,"message":"m"}}}`,
		`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"UID","allowed":true,"patchType":"JSONPatch","patch":"W3sib3AiOiJhZGQiLCJwYXRoIjoiL2RhdGEiLCJ2YWx1ZSI6eyJhIjoiYiJ9fV0="}}`,
	} {
		for kind := range uint8(4) {
			f.Add(kind, []byte(answer))
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, answer []byte) {
		body = answer
		var code int
		var said string
		switch kind % 4 {
		case 0:
			req := httptest.NewRequest("GET", "/api/v1/namespaces/default", nil)
			req.Header.Set("Authorization", "Bearer remote")
			w := httptest.NewRecorder()
			plane.Handler().ServeHTTP(w, req)
			code, said = w.Code, w.Body.String()
		case 1:
			code, said = ask(t, plane, anybody, "GET", "/api/v1/namespaces/default", "")
		default:
			code, said = ask(t, plane, root, "POST", "/api/v1/namespaces/default/configmaps?dryRun=All", fmt.Sprintf(
				`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"c-","labels":{"by":%q}}}`,
				[]string{"Validating", "Mutating"}[kind%2]))
		}
		if strings.Contains(said, "panic") {
			t.Error(said)
		}
		if code < 300 && !bytes.Contains(answer, []byte("true")) {
			t.Errorf("%q admits the request: %d %s", answer, code, said)
		}
	})
}

// FuzzAccessFiles checks that configuration files of flags never cause a panic, and that accepted
// files give no rights to an unknown user.
func FuzzAccessFiles(f *testing.F) {
	secret := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))
	seeds := [...]string{
		"letmein,jane,7,\"a,b\"\n\"x\",y\n",
		`{apiVersion: apiserver.config.k8s.io/v1, kind: AuthenticationConfiguration, anonymous: {enabled: true, conditions: [{path: /livez}]}, jwt: [{issuer: {url: "https://127.0.0.1:1",
			audiences: [a]}, claimMappings: {username: {expression: "'x:' + claims.sub"}, groups: {claim: g, prefix: ""}}, claimValidationRules: [{expression: "claims.a == 'b'", message: m}],
			userValidationRules: [{expression: "!user.username.startsWith('system:')"}]}]}`,
		`{apiVersion: apiserver.config.k8s.io/v1, kind: AuthorizationConfiguration, authorizers: [{type: Node, name: node}, {type: RBAC, name: rbac}, {type: Webhook, name: w, webhook: {timeout: 1s,
			subjectAccessReviewVersion: v1, matchConditionSubjectAccessReviewVersion: v1, failurePolicy: Deny, authorizedTTL: 1s, unauthorizedTTL: 1s, connectionInfo: {type: KubeConfigFile,
			kubeConfigFile: nowhere}, matchConditions: [{expression: "request.user != 'x'"}]}}]}`,
		`{apiVersion: apiserver.config.k8s.io/v1, kind: AdmissionConfiguration, plugins: [{name: PodSecurity, configuration: {apiVersion: pod-security.admission.config.k8s.io/v1,
			kind: PodSecurityConfiguration, defaults: {enforce: baseline, enforce-version: v1.30}, exemptions: {namespaces: [x]}}}, {name: ResourceQuota, configuration:
			{apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, limitedResources: [{resource: pods, matchContains: [cpu]}]}}]}`,
		`{apiVersion: audit.k8s.io/v1, kind: Policy, omitStages: [RequestReceived], rules: [{level: Metadata, users: [a], verbs: [get], resources: [{group: "", resources: [pods/*],
			resourceNames: [n]}]}, {level: RequestResponse, nonResourceURLs: ["/x*"], omitManagedFields: true}]}`,
		`{apiVersion: apiserver.config.k8s.io/v1, kind: EncryptionConfiguration, resources: [{resources: [secrets, "*.apps"], providers: [{aescbc: {keys: [{name: a, secret: ` + secret + `}]}},
			{aesgcm: {keys: [{name: b, secret: ` + secret + `}]}}, {secretbox: {keys: [{name: c, secret: ` + secret + `}]}}, {identity: {}}]}]}`,
		`{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"ann","namespace":"*","resource":"*","apiGroup":"*","readonly":true}}` + "\n# a line\n",
	}
	for kind, seed := range seeds {
		f.Add(uint8(kind), []byte(seed))
		f.Add(uint8(kind), []byte("\x00"))
		f.Add(uint8(kind), []byte("{}"))
	}
	question := authorizer.AttributesRecord{User: anybody, Verb: "get", Resource: "secrets", APIVersion: "v1",
		ResourceRequest: true, Path: "/api/v1/secrets"}
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		if bytes.Contains(data, []byte("kms")) || bytes.Contains(data, []byte("path:")) && kind%7 == 3 {
			t.Skip("the fuzzer must not use other files and sockets")
		}
		file := filepath.Join(t.TempDir(), "file")
		write(t, file, data)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		switch kind % 7 {
		case 0, 1:
			cfg := authn.Config{TokenFile: file}
			if kind%7 == 1 {
				cfg = authn.Config{ConfigFile: file}
			}
			auth, err := authn.New(ctx, cfg)
			if err != nil {
				return
			}
			req := httptest.NewRequest("GET", "/", nil)
			req.Header.Set("Authorization", "Bearer a-token-that-is-in-no-file")
			if who, ok, _ := auth.AuthenticateRequest(req); ok {
				t.Errorf("authenticated: %v", who)
			}
		case 2:
			pass := func() (authz.Authorizer, error) { return noOpinion{}, nil }
			authorize, err := authz.Open(file, authorizers.Parse, authz.Modes{"RBAC": pass, "Node": pass, "ABAC": pass},
				nil)
			if err != nil {
				return
			}
			if decision, _, _ := authorize.Authorize(ctx, question); decision == authorizer.DecisionAllow &&
				!bytes.Contains(data, []byte("AlwaysAllow")) {
				t.Error("authorized")
			}
		case 3:
			plugins, err := admission.ReadConfiguration(file)
			if err != nil {
				return
			}
			if plane, err := controlplane.Start(ctx,
				controlplane.Config{Controllers: controlplane.NoControllers{}, Admission: controlplane.Admission{Plugins: plugins}}); err == nil {
				plane.Stop()
			}
		case 4:
			cfg := audit.Defaults()
			cfg.PolicyFile, cfg.Log.Path, cfg.Stdout = file, "-", io.Discard
			trail, err := audit.Open(cfg)
			if err != nil {
				return
			}
			trail.EvaluatePolicyRule(&question)
			if err := trail.Close(); err != nil {
				t.Error(err)
			}
		case 5:
			if _, end, err := encrypted.Reader(encrypted.Config{File: file}); err == nil {
				end()
			}
		default:
			if abac, err := authorizers.ABAC(file); err == nil {
				_, _, _ = abac.Authorize(ctx, question)
			}
		}
	})
}

// noOpinion is an authorizer without an opinion.
type noOpinion struct{ authz.Authorizer }

func (noOpinion) Authorize(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
	return authorizer.DecisionNoOpinion, "", nil
}
