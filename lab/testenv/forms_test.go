package testenv_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
)

// counted counts the bytes of the bodies of responses.
type counted struct {
	http.RoundTripper
	bytes atomic.Int64
}

func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = &countedBody{resp.Body, c}
	}
	return resp, err
}

type countedBody struct {
	io.ReadCloser
	c *counted
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.c.bytes.Add(int64(n))
	return n, err
}

// secret returns a Secret like that of a certificate.
func secret(n int) *corev1.Secret {
	data := make([]byte, 3<<10)
	for i := range data {
		data[i] = byte(i * (n + 7) >> 3)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("certificate-%05d", n),
			Labels:      map[string]string{"app": fmt.Sprint("app-", n%100), "managed-by": "issuer"},
			Annotations: map[string]string{"issued-by": "letsencrypt", "names": fmt.Sprintf("app-%d.example.com", n)},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{"tls.crt": data, "tls.key": data[:1700], "ca.crt": data[:1200]},
	}
}

// BenchmarkInformerForms measures what an informer of 2,000 Secrets of 6 KB costs: the bytes
// received for its first list, and the heap that it keeps, for each object.
func BenchmarkInformerForms(b *testing.B) {
	const objects = 2000
	env := testenv.New(b)
	for n := range objects {
		require.NoError(b, env.Client().Create(b.Context(), secret(n)))
	}
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	for _, bench := range []struct {
		name string
		obj  client.Object
		form informer.Form
	}{{"full", &corev1.Secret{}, informer.Full}, {"compact", &corev1.Secret{}, informer.Compact},
		{"metadata", metadata, informer.Full}} {
		b.Run(bench.name, func(b *testing.B) {
			var bytes, heap int64
			for range b.N {
				link := &counted{}
				cfg := rest.CopyConfig(env.RESTConfig())
				cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { link.RoundTripper = next; return link })
				c, err := client.New(client.Config{REST: cfg})
				require.NoError(b, err)
				before := heapInUse()
				informers, err := informer.New(informer.Config{Client: c, Form: bench.form})
				require.NoError(b, err)
				inf, err := informers.For(bench.obj)
				require.NoError(b, err)
				ctx, cancel := context.WithCancel(b.Context())
				ended := make(chan error, 1)
				go func() { ended <- informers.Run(ctx) }()
				<-inf.Synced()
				bytes += link.bytes.Load()
				heap += heapInUse() - before
				if n := len(inf.List("default")); n < objects {
					b.Fatalf("%d objects", n)
				}
				runtime.KeepAlive(informers)
				cancel()
				<-ended
			}
			b.ReportMetric(float64(bytes)/float64(b.N*objects), "received-B/object")
			b.ReportMetric(float64(heap)/float64(b.N*objects), "heap-B/object")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
