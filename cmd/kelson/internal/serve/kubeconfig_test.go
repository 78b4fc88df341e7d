package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/apiserver/pki"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// A server does not replace a file with the user's other clusters.
func TestExistingKubeconfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	assert.NoErrorf(t, checkKubeconfig(file), "a new file")
	authority, err := pki.NewAuthority("test")
	require.NoError(t, err)
	require.NoError(t, writeKubeconfig(file, "https://127.0.0.1:1", authority))
	assert.NoErrorf(t, checkKubeconfig(file), "a file of a server")
	const others = "apiVersion: v1\nkind: Config\nclusters: [{name: prod, cluster: {server: \"https://prod\"}}]\n"
	for content, want := range map[string]string{"": "", others: "other entries, such as prod",
		"not: [a kubeconfig": "not a kubeconfig"} {
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		if err := checkKubeconfig(file); (err == nil) != (want == "") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", content, err, want)
		}
	}
}

// Servers that run at the same time have different contexts, so that tools can merge their
// kubeconfigs. A file with merged kubeconfigs is not replaced.
func TestContextNames(t *testing.T) {
	for url, want := range map[string]string{
		"https://127.0.0.1:6443": "kelson-6443", "https://[::1]:6443": "kelson-6443",
		"https://localhost:7443": "kelson-7443",
		"https://10.0.0.5:6443":  "kelson-10.0.0.5-6443", "https://127.0.0.1:6443/planes/abc": "kelson-6443-abc",
	} {
		assert.Equalf(t, contextName(url), want, "%s", url)
	}
	authority, err := pki.NewAuthority("test")
	require.NoError(t, err)
	first, second := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	for file, url := range map[string]string{first: "https://127.0.0.1:1", second: "https://127.0.0.1:2"} {
		require.NoError(t, writeKubeconfig(file, url, authority))
	}
	rules := clientcmd.ClientConfigLoadingRules{Precedence: []string{first, second}}
	merged, err := rules.Load()
	if err != nil || len(merged.Contexts) != 2 || len(merged.AuthInfos) != 2 || len(merged.Clusters) != 2 {
		t.Fatalf("%v %v", merged, err)
	}
	require.NoError(t, clientcmd.WriteToFile(*merged, first))
	assert.ErrorContainsf(t, checkKubeconfig(first), "other entries, such as kelson-", "a merged file")
}

// Without a folder for the user's data, the state is not kept among temporary files, where another
// user may have prepared a folder with a known key.
func TestNoDataDir(t *testing.T) {
	for _, name := range []string{"HOME", "XDG_DATA_HOME", "USERPROFILE", "LocalAppData"} {
		t.Setenv(name, "")
	}
	assert.Equalf(t, DefaultDataDir(), "", "the default")
	_, err := Start(t.Context(), Options{bindAddress: "127.0.0.1", Node: "none"}, os.Stderr)
	assert.ErrorContains(t, err, "set --data-dir, HOME or XDG_DATA_HOME")
}
