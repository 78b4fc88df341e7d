package controlplane_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"kelson.dev/apiserver/fastpath"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// Objects of one kilobyte, in memory, in process, with as many clients as CPUs.
func BenchmarkConfigMaps(b *testing.B) {
	plane := start(b, controlplane.Config{NoFastPaths: fastpath.DisabledByEnvironment()})
	client := &http.Client{Transport: plane.Transport()}
	value := strings.Repeat("x", 1000)
	const collection = "http://plane/api/v1/namespaces/default/configmaps"
	do := func(b *testing.B, method, url, body string, want int) {
		req, err := http.NewRequest(method, url, strings.NewReader(body))
		require.NoError(b, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := client.Do(req)
		require.NoError(b, err)
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want {
			b.Fatalf("%s %s: %s", method, url, resp.Status)
		}
	}
	var n atomic.Int64
	create := func(b *testing.B) {
		do(b, http.MethodPost, collection,
			fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c%d"},"data":{"k":"%s"}}`, n.Add(1),
				value), http.StatusCreated)
	}
	b.Run("create", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				create(b)
			}
		})
	})
	create(b)
	b.Run("get", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				do(b, http.MethodGet, collection+"/c1", "", http.StatusOK)
			}
		})
	})
	for n.Load() < 10_000 {
		create(b)
	}
	b.Run("list 10k", func(b *testing.B) {
		for b.Loop() {
			do(b, http.MethodGet, collection, "", http.StatusOK)
		}
	})
}
