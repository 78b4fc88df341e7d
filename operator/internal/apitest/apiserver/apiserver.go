// Package apiserver has real API servers for the tests that are not content with less.
package apiserver

import (
	"os"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/operator/operatortest"
)

// For is that of the kubeconfig in KELSON_TEST_KUBECONFIG, which may be kube-apiserver; else a
// throwaway plane of the binary in KELSON. Without either the test is skipped.
func For(t testing.TB) *rest.Config {
	t.Helper()
	if path := os.Getenv("KELSON_TEST_KUBECONFIG"); path != "" {
		cfg, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	if os.Getenv("KELSON") == "" {
		t.Skip("SKIPPED: KELSON does not name a kelson binary, so nothing was seen of a real API server")
	}
	return operatortest.New(t).RESTConfig()
}
