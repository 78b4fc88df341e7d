package kubernetes_test

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"kelson.dev/apiserver/pki"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controllers/certificates"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

// signing returns a control plane whose certificates controller has some options, and the authority
// that signs its requests.
func signing(t *testing.T, options ...func(*certificates.Config)) (*testenv.Env, *pki.Authority) {
	t.Helper()
	env := testenv.New(t, testenv.Log(t))
	ca, err := pki.NewAuthority("test-ca")
	require.NoError(t, err)
	cfg := certificates.Config{Store: env.Plane().Store(), Client: env.Client(), Authority: ca.Certificate,
		Key: ca.Key()}
	for _, set := range options {
		set(&cfg)
	}
	c := certificates.New(cfg)
	ended := make(chan error)
	go func() { ended <- c.Run(t.Context()) }()
	t.Cleanup(func() {
		assert.NoError(t, <-ended)
	})
	return env, ca
}

// request creates a CertificateSigningRequest for a signer.
func request(t *testing.T, env *testenv.Env, name, signer string, subject pkix.Name,
	usages ...certificatesv1.KeyUsage) {
	t.Helper()
	env.Create(t, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: requestPEM(t, &x509.CertificateRequest{Subject: subject}), SignerName: signer,
			Usages: usages,
		},
	})
}

// decide approves or denies a request.
func decide(t *testing.T, env *testenv.Env, name string, kind certificatesv1.RequestConditionType) {
	t.Helper()
	decideAt(t, env, name, kind, time.Now())
}

func decideAt(t *testing.T, env *testenv.Env, name string, kind certificatesv1.RequestConditionType, at time.Time) {
	t.Helper()
	csr := csrOf(t, env, name)
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: "Test", LastUpdateTime: metav1.NewTime(at),
	})
	require.NoError(t, env.Client().Subresource("approval").Update(t.Context(), csr, nil))
}

func csrOf(t *testing.T, env *testenv.Env, name string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	env.Settle(t)
	csr, err := client.Get[certificatesv1.CertificateSigningRequest](t.Context(), env.Client(), client.Key{Name: name})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(t, err)
	return csr
}

// A request is signed when it is approved, and the certificate is valid for client authentication.
func TestApprovedRequestsAreSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, ca := signing(t)
		jane := pkix.Name{CommonName: "jane", Organization: []string{"dev"}}
		request(t, env, "jane", certificatesv1.KubeAPIServerClientSignerName, jane, certificatesv1.UsageClientAuth)
		if csr := csrOf(t, env, "jane"); len(csr.Status.Certificate) > 0 {
			t.Error("signed before it was approved")
		}
		decide(t, env, "jane", certificatesv1.CertificateApproved)
		block, rest := pem.Decode(csrOf(t, env, "jane").Status.Certificate)
		if block == nil || len(rest) > 0 {
			t.Fatal("no certificate")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		roots := x509.NewCertPool()
		roots.AddCert(ca.Certificate)
		_, err = cert.Verify(x509.VerifyOptions{
			Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, CurrentTime: time.Now(),
		})
		assert.NoError(t, err)
		if cert.Subject.CommonName != "jane" || cert.IsCA ||
			!cert.NotAfter.Before(time.Now().Add(certificates.DefaultLifetime)) {
			t.Errorf("%v, authority %v, until %v", cert.Subject, cert.IsCA, cert.NotAfter)
		}
	})
}

// Denied requests and those of other signers get no certificate. An approved request that breaks
// the signer's rules fails with the reason.
func TestUnsignedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, _ := signing(t)
		bob := pkix.Name{CommonName: "bob"}
		request(t, env, "denied", certificatesv1.KubeAPIServerClientSignerName, bob, certificatesv1.UsageClientAuth)
		decide(t, env, "denied", certificatesv1.CertificateDenied)
		request(t, env, "others", "example.com/signer", bob, certificatesv1.UsageClientAuth)
		decide(t, env, "others", certificatesv1.CertificateApproved)
		for name, why := range map[string]string{"denied": "", "others": ""} {
			if csr := csrOf(t, env, name); len(csr.Status.Certificate) > 0 || len(csr.Status.Conditions) != 1 {
				t.Errorf("%s: %v%s", name, csr.Status, why)
			}
		}

		request(t, env, "server", certificatesv1.KubeAPIServerClientSignerName, bob, certificatesv1.UsageServerAuth)
		request(t, env, "no-node", certificatesv1.KubeAPIServerClientKubeletSignerName, bob,
			certificatesv1.UsageClientAuth)
		for name, why := range map[string]string{
			"server":  "invalid usage for client certificate: server auth",
			"no-node": "subject organization is not system:nodes",
		} {
			decide(t, env, name, certificatesv1.CertificateApproved)
			csr := csrOf(t, env, name)
			last := csr.Status.Conditions[len(csr.Status.Conditions)-1]
			if last.Type != certificatesv1.CertificateFailed || last.Reason != "SignerValidationFailure" ||
				!strings.Contains(last.Message, why) {
				t.Errorf("%s: %+v", name, last)
			}
		}
	})
}

// Signed and denied requests are deleted after an hour, and all others within the next day.
func TestRequestsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, _ := signing(t)
		for _, name := range []string{"open", "signed", "denied", "unanswered"} {
			signer := certificatesv1.KubeAPIServerClientSignerName
			if name == "unanswered" {
				signer = "example.com/signer"
			}
			request(t, env, name, signer, pkix.Name{CommonName: name}, certificatesv1.UsageClientAuth)
		}
		decide(t, env, "denied", certificatesv1.CertificateDenied)
		decide(t, env, "signed", certificatesv1.CertificateApproved)
		decide(t, env, "unanswered", certificatesv1.CertificateApproved)
		want := func(when string, names ...string) {
			t.Helper()
			var left []string
			for _, name := range []string{"open", "signed", "denied", "unanswered"} {
				if csrOf(t, env, name) != nil {
					left = append(left, name)
				}
			}
			if strings.Join(left, " ") != strings.Join(names, " ") {
				t.Errorf("%s: %v, want %v", when, left, names)
			}
		}
		time.Sleep(59 * time.Minute)
		want("after 59 minutes", "open", "signed", "denied", "unanswered")
		time.Sleep(2 * time.Minute)
		want("after 61 minutes", "open", "unanswered")
		time.Sleep(24 * time.Hour)
		want("after a day")
	})
}

// Requests that were decided before the clock was set. A time in the future delays the deletion; a
// time that is further away than a timer can wait does no harm. A certificate is valid from the
// current time of the signer's clock.
func TestRequestsWhenTheClockIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, _ := signing(t)
		for name, at := range map[string]time.Time{
			"past": time.Now().Add(-2 * time.Hour), "tomorrow": time.Now().Add(24 * time.Hour),
			"never": time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC),
		} {
			request(t, env, name, certificatesv1.KubeAPIServerClientSignerName, pkix.Name{CommonName: name},
				certificatesv1.UsageClientAuth)
			decideAt(t, env, name, certificatesv1.CertificateDenied, at)
		}
		want := func(when string, want map[string]bool) {
			t.Helper()
			for name, exists := range want {
				assert.Equalf(t, csrOf(t, env, name) != nil, exists, "%s: %s exists", when, name)
			}
		}
		want("now", map[string]bool{"past": false, "tomorrow": true, "never": true})
		time.Sleep(25*time.Hour - time.Minute)
		want("before its time", map[string]bool{"tomorrow": true})
		time.Sleep(2 * time.Minute)
		want("after its time", map[string]bool{"tomorrow": false, "never": true})
		request(t, env, "signed", certificatesv1.KubeAPIServerClientSignerName, pkix.Name{CommonName: "signed"},
			certificatesv1.UsageClientAuth)
		decideAt(t, env, "signed", certificatesv1.CertificateApproved, time.Now().Add(-30*time.Minute))
		block, _ := pem.Decode(csrOf(t, env, "signed").Status.Certificate)
		if block == nil {
			t.Fatal("not signed")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil || cert.NotBefore.After(time.Now()) || time.Since(cert.NotBefore) > time.Hour {
			t.Errorf("valid from %v, now %v: %v", cert.NotBefore, time.Now(), err)
		}
	})
}

// A request for a kubelet's own certificate is approved if the requester is authorized.
func TestKubeletRequestsAreApproved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		onlyJoiners := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision,
			string, error) {
			if a.GetUser().GetName() == "kelson-admin" && a.GetSubresource() == "nodeclient" &&
				a.GetResource() == "certificatesigningrequests" && a.GetVerb() == "create" {
				return authorizer.DecisionAllow, "", nil
			}
			return authorizer.DecisionNoOpinion, "", nil
		})
		env, _ := signing(t, func(c *certificates.Config) { c.Authorizer = onlyJoiners })
		kubelet := pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}
		request(t, env, "kubelet", certificatesv1.KubeAPIServerClientKubeletSignerName, kubelet,
			certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature)
		if csr := csrOf(t, env, "kubelet"); len(csr.Status.Certificate) == 0 ||
			csr.Status.Conditions[0].Reason != "AutoApproved" {
			t.Errorf("%+v", csr.Status)
		}
		request(t, env, "other-signer", certificatesv1.KubeAPIServerClientSignerName, kubelet,
			certificatesv1.UsageClientAuth)
		request(t, env, "no-kubelet", certificatesv1.KubeAPIServerClientKubeletSignerName, pkix.Name{CommonName: "bob"},
			certificatesv1.UsageClientAuth)
		for _, name := range []string{"other-signer", "no-kubelet"} {
			if csr := csrOf(t, env, name); len(csr.Status.Conditions) > 0 {
				t.Errorf("%s: %+v", name, csr.Status)
			}
		}
	})
}
