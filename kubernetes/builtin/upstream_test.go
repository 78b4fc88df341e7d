package builtin

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/apis/core"

	"kelson.dev/internal/require"
)

// moduleDir returns the source directory of the module that contains a function. It has Kubernetes'
// documents.
func moduleDir(t testing.TB, fn any, below string) string {
	t.Helper()
	pc := reflect.ValueOf(fn).Pointer()
	file, _ := runtime.FuncForPC(pc).FileLine(pc)
	dir, _, ok := strings.Cut(file, below)
	if _, err := os.Stat(dir); !ok || err != nil {
		t.Skipf("no module source beside the test: %s", file)
	}
	return dir
}

// sample reads an object with every field set, from the compatibility data of k8s.io/api.
func sample(t testing.TB, group, version, kind, ext string) []byte {
	t.Helper()
	if group == "" {
		group = "core"
	}
	dir := moduleDir(t, corev1.Resource, "/core/v1/")
	data, err := os.ReadFile(filepath.Join(dir, "testdata", "HEAD", group+"."+version+"."+kind+"."+ext))
	require.NoError(t, err)
	return data
}

// discoveryDocument reads the discovery document of kube-apiserver with all features enabled.
func discoveryDocument(t testing.TB, name string) []byte {
	t.Helper()
	dir := moduleDir(t, core.Kind, "/pkg/apis/core/")
	data, err := os.ReadFile(filepath.Join(dir, "api", "discovery", name))
	require.NoError(t, err)
	return data
}
