package kubernetes_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
)

// PodCertificateRequests are deleted after 15 minutes, with or without a certificate.
func TestPodRequestsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		env, _ := signing(t)
		const ns = "default"
		podRequest(t, env, ns, "open")
		podRequest(t, env, ns, "denied")
		podRequest(t, env, ns, "held", "example.com/keeper")
		denied, err := client.Get[certificatesv1.PodCertificateRequest](t.Context(), env.Client(),
			client.Key{Namespace: ns, Name: "denied"})
		require.NoError(t, err)
		denied.Status.Conditions = []metav1.Condition{{
			Type: certificatesv1.PodCertificateRequestConditionTypeDenied, Status: metav1.ConditionTrue, Reason: "Test",
			Message: "no", LastTransitionTime: metav1.Now(),
		}}
		require.NoError(t, env.Client().Subresource("status").Update(t.Context(), denied, nil))
		time.Sleep(5 * time.Minute)
		podRequest(t, env, ns, "late")
		want := func(when string, names ...string) {
			t.Helper()
			var found []string
			env.Settle(t)
			for _, name := range []string{"open", "denied", "held", "late"} {
				r, err := client.Get[certificatesv1.PodCertificateRequest](t.Context(), env.Client(),
					client.Key{Namespace: ns, Name: name})
				switch {
				case apierrors.IsNotFound(err):
					continue
				case err != nil:
					t.Fatal(err)
				case r.DeletionTimestamp != nil:
					name += "(deleted)"
				}
				found = append(found, name)
			}
			if strings.Join(found, " ") != strings.Join(names, " ") {
				t.Errorf("%s: %v, want %v", when, found, names)
			}
		}
		time.Sleep(9 * time.Minute)
		want("after 14 minutes", "open", "denied", "held", "late")
		time.Sleep(2 * time.Minute)
		want("after 16 minutes", "held(deleted)", "late")
		time.Sleep(5 * time.Minute)
		want("after 21 minutes", "held(deleted)")
	})
}

func podRequest(t *testing.T, env *testenv.Env, namespace, name string, finalizers ...string) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	require.NoError(t, err)
	env.Create(t, &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: finalizers},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: "example.com/signer", PodName: "web", PodUID: "p", ServiceAccountName: "default",
			ServiceAccountUID: "s", NodeName: "n", NodeUID: "n",
			StubPKCS10Request: stub,
		},
	})
}
