package kubernetes_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controllers/certificates"
	"kelson.dev/operator/client"
)

// A kubelet gets a serving certificate only for the name and addresses of its own node.
func TestServingCertificatesOfKubelets(t *testing.T) {
	synctest.Test(t, servingCertificates)
}

func servingCertificates(t *testing.T) {
	env, _ := signing(t, func(c *certificates.Config) { c.ApproveServing = true })
	for name, address := range map[string]string{"one": "10.1.0.1", "two": "10.1.0.2", "lying": "10.1.0.2",
		"vip": "10.0.0.1"} {
		env.Create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		node, err := client.Get[corev1.Node](t.Context(), env.Client(), client.Key{Name: name})
		require.NoError(t, err)
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address},
			{Type: corev1.NodeHostName, Address: name}}
		require.NoError(t, env.Client().Subresource("status").Update(t.Context(), node, nil))
	}
	for _, test := range []struct {
		name      string
		requester string
		subject   string
		dns       []string
		ips       []string
		want      bool
	}{
		{name: "own", requester: "one", subject: "one", dns: []string{"one"}, ips: []string{"10.1.0.1"}, want: true},
		{name: "address-only", requester: "one", subject: "one", ips: []string{"10.1.0.1"}, want: true},
		{name: "for-another", requester: "one", subject: "two", ips: []string{"10.1.0.2"}},
		{name: "address-of-another", requester: "one", subject: "one", ips: []string{"10.1.0.2"}},
		{name: "claimed-address", requester: "lying", subject: "lying", ips: []string{"10.1.0.2"}},
		{name: "unknown-address", requester: "one", subject: "one", ips: []string{"10.1.0.1", "10.9.9.9"}},
		{name: "loopback", requester: "one", subject: "one", ips: []string{"127.0.0.1"}},
		{name: "cluster-ip", requester: "vip", subject: "vip", ips: []string{"10.0.0.1"}},
		{name: "name-of-the-server", requester: "one", subject: "one", dns: []string{"kubernetes.default.svc"},
			ips: []string{"10.1.0.1"}},
		{name: "no-node", requester: "gone", subject: "gone", dns: []string{"gone"}},
	} {
		config := rest.CopyConfig(env.RESTConfig())
		config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + test.requester,
			Groups: []string{"system:nodes", "system:authenticated"}}
		node, err := client.New(client.Config{REST: config, FieldOwner: "kubelet"})
		require.NoError(t, err)
		err = node.Create(t.Context(), servingRequest(t, test.name, test.subject, test.dns, test.ips))
		require.NoError(t, err)
		time.Sleep(2 * time.Minute) // the node's addresses may be set after the request
		got := len(csrOf(t, env, test.name).Status.Certificate) > 0
		assert.Equalf(t, got, test.want, "%s: signed", test.name)
	}
	env.Create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gone"}})
	if r := csrOf(t, env, "no-node"); len(r.Status.Certificate) > 0 || len(r.Status.Conditions) > 0 {
		t.Errorf("an old request was decided when its node was created: %v", r.Status)
	}
}

func servingRequest(t *testing.T, name, node string, dns, ips []string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	template := &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}, DNSNames: dns,
	}
	for _, ip := range ips {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(ip))
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    requestPEM(t, template),
			SignerName: certificatesv1.KubeletServingSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
		},
	}
}
