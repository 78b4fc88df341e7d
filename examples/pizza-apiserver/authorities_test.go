package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kelson.dev/apiserver"
	"kelson.dev/apiserver/pki"
	"kelson.dev/examples/pizza-apiserver/restaurant"
)

// The server verifies client certificates once and caches the result, and still follows the
// authorities and the names of proxies that the cluster publishes, also on open connections.
func TestPublishedAuthoritiesChange(t *testing.T) {
	if testing.Short() {
		t.Skip("more than a second")
	}
	c := newCluster(t)
	users, later := authority(t, "users"), authority(t, "later")
	c.publish(t, map[string]string{"client-ca-file": string(users.PEM)})
	url := serve(t, "--kubeconfig="+c.env.Kubeconfig(t)) + "/apis/restaurant.programming-kubernetes.info/v1beta1/pizzas"
	proxy, admin := as(t, c.proxy, "aggregator"), as(t, users, "admin", "system:masters")
	mallory := as(t, users, "mallory") // a user that sends the headers of a proxy
	want := func(who string, client *http.Client, user string, code int) {
		t.Helper()
		var got int
		for until := time.Now().Add(time.Minute); got != code &&
			time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			if user != "" {
				req.Header.Set("X-Remote-User", user)
				req.Header.Set("X-Remote-Group", "system:masters")
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			got = resp.StatusCode
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
		if got != code {
			t.Errorf("%s: %d, want %d", who, got, code)
		}
	}
	for range 2 {
		want("proxy", proxy, "alice", http.StatusOK)
		want("user", admin, "", http.StatusOK)
		want("user with the headers of a proxy", mallory, "alice", http.StatusForbidden)
	}
	c.publish(t, map[string]string{"requestheader-allowed-names": `["other"]`})
	want("proxy whose name is no longer allowed", proxy, "alice", http.StatusUnauthorized)
	c.publish(t, map[string]string{"requestheader-allowed-names": `["aggregator"]`})
	want("allowed again", proxy, "alice", http.StatusOK)
	c.publish(t, map[string]string{"requestheader-client-ca-file": string(later.PEM),
		"client-ca-file": string(later.PEM)})
	want("proxy of the previous authority", proxy, "alice", http.StatusUnauthorized)
	want("user of the previous authority", admin, "", http.StatusUnauthorized)
	want("proxy of the new authority", as(t, later, "aggregator"), "alice", http.StatusOK)
	want("user of the new authority", as(t, later, "admin", "system:masters"), "", http.StatusOK)
}

// publish changes the data that the cluster publishes about clients and proxies.
func (c *cluster) publish(t *testing.T, data map[string]string) {
	t.Helper()
	maps := c.kube.CoreV1().ConfigMaps("kube-system")
	trust, err := maps.Get(t.Context(), "extension-apiserver-authentication", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range data {
		trust.Data[key] = value
	}
	if _, err := maps.Update(t.Context(), trust, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func authority(t *testing.T, name string) *pki.Authority {
	t.Helper()
	a, err := pki.NewAuthority(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// as returns a client with a certificate. It presents it whether or not the server announces its
// authority, and keeps its connection.
func as(t *testing.T, by *pki.Authority, name string, groups ...string) *http.Client {
	t.Helper()
	pair, err := by.Client(name, groups...)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		InsecureSkipVerify:   true, //nolint:gosec
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &loaded, nil },
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

// Servers share an authority in a Secret, which the first one fills, and write it to the
// APIServices that name a service of the Secret's namespace.
func TestAuthorityInASecret(t *testing.T) {
	if testing.Short() {
		t.Skip("more than a second")
	}
	c := newCluster(t)
	secrets := c.kube.CoreV1().Secrets("default")
	if _, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "authority"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(c.env.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	services := client.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1",
		Resource: "apiservices"})
	const group = "restaurant.programming-kubernetes.info"
	register := func(version, namespace string) {
		t.Helper()
		if _, err := services.Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
			"metadata": map[string]any{"name": version + "." + group},
			"spec": map[string]any{"group": group, "version": version, "groupPriorityMinimum": 1000,
				"versionPriority": 15,
				"service":         map[string]any{"namespace": namespace, "name": "pizza"}},
		}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	register("v1alpha1", "elsewhere")
	args := []string{"--kubeconfig=" + c.env.Kubeconfig(t), "--authority-secret=default/authority"}
	urls := []string{serve(t, args...), serve(t, args...)}
	register("v1beta1", "default") // after the servers have started
	secret, err := secrets.Get(t.Context(), "authority", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(secret.Data["ca.crt"]) {
		t.Fatalf("the secret has no authority: %q", secret.Data)
	}
	for _, url := range urls {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
		resp, err := (&http.Client{Transport: transport}).Get(url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		transport.CloseIdleConnections()
	}
	bundle := func(version string) string {
		t.Helper()
		obj, err := services.Get(t.Context(), version+"."+group, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ := unstructured.NestedString(obj.Object, "spec", "caBundle")
		return text
	}
	want := base64.StdEncoding.EncodeToString(secret.Data["ca.crt"])
	eventually(t, "caBundle of v1beta1", func() (bool, string) { return bundle("v1beta1") == want, bundle("v1beta1") })
	if got := bundle("v1alpha1"); got != "" {
		t.Errorf("caBundle of the APIService whose service is in another namespace: %s", got)
	}

	for _, wrong := range []string{"authority", "default/", "default/missing"} {
		err := apiserver.Serve(t.Context(), append(args[:1:1], "--secure-port=0", "--bind-address=127.0.0.1",
			"--authority-secret="+wrong), io.Discard, restaurant.API())
		if err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("--authority-secret=%s: %v", wrong, err)
		}
	}
}
