package controlplane_test

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controllers/workloads"
	"kelson.dev/kubernetes/controlplane"
)

// ComponentStatuses describe the components of this process, and others by their ports.
func TestComponentStatuses(t *testing.T) {
	for name, test := range map[string]struct {
		cfg     controlplane.Config
		healthy string
	}{
		"own":         {controlplane.Config{Controllers: controlplane.AllControllers{}}, "controller-manager etcd-0 scheduler"},
		"others":      {controlplane.Config{Controllers: controlplane.AllControllers{Selection: workloads.Selection{"-*"}}}, "etcd-0"},
		"only an API": {controlplane.Config{Controllers: controlplane.NoControllers{}}, "etcd-0"},
	} {
		t.Run(name, func(t *testing.T) {
			plane := start(t, test.cfg)
			client := kubernetes.NewForConfigOrDie(plane.RESTConfig()).CoreV1().ComponentStatuses()
			list, err := client.List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			var healthy []string
			for _, name := range []string{"controller-manager", "etcd-0", "scheduler"} {
				one, err := client.Get(t.Context(), name, metav1.GetOptions{})
				require.NoError(t, err)
				if c := one.Conditions[0]; c.Type == "Healthy" && c.Status == "True" && c.Message == "ok" {
					healthy = append(healthy, name)
				} else if c.Error == "" && c.Message == "" {
					t.Errorf("%s: %+v", name, c)
				}
			}
			if got := strings.Join(healthy, " "); got != test.healthy || len(list.Items) != 3 {
				t.Errorf("%s are healthy, and the list has %d", got, len(list.Items))
			}
			selected, err := client.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=scheduler"})
			if err != nil || len(selected.Items) != 1 {
				t.Errorf("%d selected by name: %v", len(selected.Items), err)
			}
			const missing = `componentstatus "nothing" not found`
			if _, err := client.Get(t.Context(), "nothing", metav1.GetOptions{}); err == nil || err.Error() != missing {
				t.Error(err)
			}
		})
	}
}

// ComponentStatuses can only be read.
func TestComponentStatusForms(t *testing.T) {
	plane := start(t, controlplane.Config{})
	client := &http.Client{Transport: plane.Transport()}
	do := func(method, path, accept string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://plane/api/v1/componentstatuses"+path, nil)
		require.NoError(t, err)
		req.Header.Set("Accept", accept)
		resp, err := client.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		if warning := resp.Header.Get("Warning"); resp.StatusCode == http.StatusOK &&
			!strings.Contains(warning, "v1 ComponentStatus is deprecated in v1.19+") {
			t.Errorf("%s: Warning %q", path, warning)
		}
		return resp.StatusCode, resp.Header.Get("Content-Type")
	}
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io"
	for _, accept := range []string{"application/json", "application/vnd.kubernetes.protobuf", "application/cbor",
		table} {
		for _, path := range []string{"", "/etcd-0"} {
			if code, got := do("GET", path, accept); code != http.StatusOK ||
				!strings.HasPrefix(accept, got) && got != accept {
				t.Errorf("%s as %s: %d %s", path, accept, code, got)
			}
		}
	}
	for _, method := range []string{"POST", "DELETE", "PUT"} {
		if code, _ := do(method, "/etcd-0", "*/*"); code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, code)
		}
	}
	if code, _ := do("GET", "?watch=1", "*/*"); code != http.StatusMethodNotAllowed {
		t.Errorf("watch: %d", code)
	}
	_, err := kubernetes.NewForConfigOrDie(plane.RESTConfig()).CoreV1().ComponentStatuses().Watch(t.Context(),
		metav1.ListOptions{})
	if err == nil || err.Error() != `watch is not supported on resources of kind "componentstatuses"` {
		t.Errorf("watch: %v", err)
	}
}
