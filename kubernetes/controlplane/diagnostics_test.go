package controlplane_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// kube-apiserver's pages about the process.
func TestDiagnosticPages(t *testing.T) {
	plane := start(t, controlplane.Config{Profiling: true, Flags: map[string]string{"secure-port": "6443"}})
	client := &http.Client{Transport: plane.Transport()}
	for path, want := range map[string]string{
		"/statusz":     "Binary version",
		"/flagz":       "secure-port",
		"/debug/flags": "full flags configurable",
		"/index.html":  "/apis/apps/v1",
	} {
		resp, err := client.Get("http://plane" + path)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s %v\n%s", path, resp.Status, err, body)
		}
	}
	w, answer := ask(t, plane, &user.DefaultInfo{Name: "ann"}, "GET", "/flagz", "")
	if w != http.StatusForbidden {
		t.Errorf("another user got /flagz: %d %s", w, answer)
	}
	without := start(t, controlplane.Config{})
	if code, _ := ask(t, without, &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}, "GET",
		"/flagz", ""); code != http.StatusNotFound {
		t.Errorf("/flagz without flags: %d", code)
	}
}
