package webhook_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
	"kelson.dev/operator/webhook"
)

var secretKey = client.Key{Namespace: "system", Name: "hook-cert"}

func startAuthority(t *testing.T, c client.Client) *webhook.Authority {
	a := webhook.NewAuthority(webhook.AuthorityConfig{Client: c, Secret: secretKey, Names: []string{"*.system.svc"},
		Life: 30 * 24 * time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() {
		assert.NoError(t, a.Run(ctx))
	})
	t.Cleanup(func() { cancel(); ended.Wait() })
	return a
}

func certificate(t *testing.T, a webhook.Certificates) *tls.Certificate {
	t.Helper()
	cert, err := a.GetCertificate(&tls.ClientHelloInfo{})
	must(t, err)
	return cert
}

// All replicas use the certificates of one Secret, which are renewed in time and restored if the
// Secret is deleted or damaged.
func TestReplicasShareOneAuthority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := client.New(client.Config{REST: apitest.New().REST()})
		must(t, err)
		one, two := startAuthority(t, c), startAuthority(t, c)
		<-one.Ready()
		<-two.Ready()
		same := func(when string) *tls.Certificate {
			t.Helper()
			time.Sleep(time.Minute)
			a, b := certificate(t, one), certificate(t, two)
			caA, _ := one.CABundle()
			caB, _ := two.CABundle()
			if !bytes.Equal(a.Certificate[0], b.Certificate[0]) || !bytes.Equal(caA, caB) {
				t.Fatalf("%s: they have different certificates", when)
			}
			return a
		}
		first := same("at the start")
		time.Sleep(19 * 24 * time.Hour)
		if now := same("after 19 days"); !bytes.Equal(now.Certificate[0], first.Certificate[0]) {
			t.Error("renewed too soon")
		}
		time.Sleep(2 * 24 * time.Hour)
		renewed := same("after 21 days")
		if bytes.Equal(renewed.Certificate[0], first.Certificate[0]) {
			t.Error("not renewed")
		}
		must(t, c.Delete(t.Context(), &corev1.Secret{ObjectMeta: meta(secretKey)}))
		recreated := same("after the Secret was deleted")
		if bytes.Equal(recreated.Certificate[0], renewed.Certificate[0]) {
			t.Error("the Secret was not recreated")
		}
		secret, err := client.Get[corev1.Secret](t.Context(), c, secretKey)
		must(t, err)
		secret.Data["tls.key"] = []byte("nonsense")
		must(t, c.Update(t.Context(), secret))
		if restored := same("after the Secret was damaged"); bytes.Equal(restored.Certificate[0],
			recreated.Certificate[0]) {
			t.Error("the Secret was not restored")
		}
		// A later replica uses the existing certificates.
		if three := startAuthority(t, c); true {
			<-three.Ready()
			if !bytes.Equal(certificate(t, three).Certificate[0], same("at the end").Certificate[0]) {
				t.Error("the third replica created its own certificate")
			}
		}
	})
}

// Without a client, the authority is in memory and renews its certificate too.
func TestAuthorityInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := startAuthority(t, nil)
		<-a.Ready()
		first := certificate(t, a)
		_, changed := a.CABundle()
		time.Sleep(21 * 24 * time.Hour)
		<-changed
		if bytes.Equal(certificate(t, a).Certificate[0], first.Certificate[0]) {
			t.Error("not renewed")
		}
	})
}

// New files are used after some seconds, if certificate and key fit. Otherwise the previous
// certificate stays in use.
func TestDirectoryIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	if _, err := webhook.NewDirectory(dir, "", ""); err == nil {
		t.Error("no error for an empty directory")
	}
	write := func(cert, key []byte) {
		t.Helper()
		must(t, os.WriteFile(filepath.Join(dir, "tls.crt"), cert, 0o600))
		must(t, os.WriteFile(filepath.Join(dir, "tls.key"), key, 0o600))
	}
	synctest.Test(t, func(t *testing.T) {
		pairs := [2][2][]byte{}
		for i := range pairs {
			c, err := client.New(client.Config{REST: apitest.New().REST()})
			must(t, err)
			a := startAuthority(t, c)
			<-a.Ready()
			secret, err := client.Get[corev1.Secret](t.Context(), c, secretKey)
			must(t, err)
			pairs[i] = [2][]byte{secret.Data["tls.crt"], secret.Data["tls.key"]}
		}
		write(pairs[0][0], pairs[0][1])
		d, err := webhook.NewDirectory(dir, "", "")
		must(t, err)
		first := certificate(t, d)
		// Only the certificate is replaced.
		write(append([]byte("\n"), pairs[1][0]...), pairs[0][1])
		time.Sleep(2 * time.Second)
		assert.Equalf(t, certificate(t, d), first, "a certificate without its key was used")
		write(append([]byte("\n"), pairs[1][0]...), append([]byte("\n"), pairs[1][1]...))
		assert.Equalf(t, certificate(t, d), first, "the files were read again too early")
		time.Sleep(2 * time.Second)
		if now := certificate(t, d); bytes.Equal(now.Certificate[0], first.Certificate[0]) {
			t.Error("not reloaded")
		}
		must(t, os.Remove(filepath.Join(dir, "tls.crt")))
		time.Sleep(2 * time.Second)
		certificate(t, d) // the certificate in use is valid long enough
	})
}
