package controlplane_test

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// A watch that began before a change of the storage version never shows objects stored in the new
// version: it ends, and its client continues from the last event.
func TestWatchesEndWhenTheStorageVersionChanges(t *testing.T) {
	plane := start(t, controlplane.Config{})
	admin := &user.DefaultInfo{Name: "root", Groups: []string{user.SystemPrivilegedGroup}}
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	versions := func(storage string) string {
		var all []string
		for _, v := range []string{"v1", "v2"} {
			all = append(all, `{"name":"`+v+`","served":true,"storage":`+
				map[bool]string{true: "true", false: "false"}[v == storage]+
				`,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`)
		}
		return `"versions":[` + strings.Join(all, ",") + `]`
	}
	body := `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.probe.example.com"},
		"spec":{"group":"probe.example.com","scope":"Namespaced","names":{"plural":"things","kind":"Thing"},` + versions("v1") + `}}`
	if code, answer := ask(t, plane, admin, "POST", definitions, body); code != http.StatusCreated {
		t.Fatalf("%d %s", code, answer)
	}
	const things = "/apis/probe.example.com/v1/namespaces/default/things"
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://plane"+things+"?watch=1", nil)
	require.NoError(t, err)
	resp, err := plane.TransportAs(admin).RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	patch, err := http.NewRequestWithContext(t.Context(), "PATCH",
		"http://plane"+definitions+"/things.probe.example.com",
		strings.NewReader(`{"spec":{`+versions("v2")+`}}`))
	require.NoError(t, err)
	patch.Header.Set("Content-Type", "application/merge-patch+json")
	changed, err := plane.TransportAs(admin).RoundTrip(patch)
	if err != nil || changed.StatusCode != http.StatusOK {
		t.Fatal(changed, err)
	}
	changed.Body.Close()
	if code, answer := ask(t, plane, admin, "POST", things,
		`{"apiVersion":"probe.example.com/v1","kind":"Thing","metadata":{"name":"a"}}`); code != http.StatusCreated {
		t.Fatalf("%d %s", code, answer)
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if strings.Contains(lines.Text(), "probe.example.com/v2") {
			t.Errorf("a watch of v1 shows %s", lines.Text())
		}
	}
	// The scanner has ended, and therefore the watch.
	if code, answer := ask(t, plane, admin, "GET", things+"?watch=1&timeoutSeconds=1", ""); code != http.StatusOK ||
		!strings.Contains(answer, "probe.example.com/v1") {
		t.Errorf("%d %s", code, answer)
	}
}
