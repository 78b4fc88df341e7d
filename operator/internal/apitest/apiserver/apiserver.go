// Package apiserver provides real API servers to tests that need one.
package apiserver

import (
	"os"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/internal/require"
	"kelson.dev/operator/operatortest"
)

// For returns the configuration of an API server: the one of the kubeconfig in
// KELSON_TEST_KUBECONFIG, which can be kube-apiserver, or else a throwaway plane of the binary in
// KELSON. Without either variable, it skips the test.
func For(t testing.TB) *rest.Config {
	t.Helper()
	if path := os.Getenv("KELSON_TEST_KUBECONFIG"); path != "" {
		cfg, err := clientcmd.BuildConfigFromFlags("", path)
		require.NoError(t, err)
		return cfg
	}
	if os.Getenv("KELSON") == "" {
		t.Skip("SKIPPED: needs a real API server: set KELSON to a kelson binary or KELSON_TEST_KUBECONFIG to a kubeconfig")
	}
	return operatortest.New(t).RESTConfig()
}
