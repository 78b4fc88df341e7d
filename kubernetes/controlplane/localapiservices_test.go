package controlplane_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// automanaged returns the label by which the server keeps each APIService, by name.
func automanaged(t *testing.T, plane *controlplane.ControlPlane) map[string]string {
	t.Helper()
	code, answer := ask(t, plane, root, "GET", apiServicesPath, "")
	var list struct {
		Items []struct {
			Metadata struct {
				Name   string
				Labels map[string]string
			}
		}
	}
	if err := json.Unmarshal([]byte(answer), &list); err != nil || code != http.StatusOK {
		t.Fatal(code, err)
	}
	out := map[string]string{}
	for _, item := range list.Items {
		out[item.Metadata.Name] = item.Metadata.Labels["kube-aggregator.kubernetes.io/automanaged"]
	}
	return out
}

// Each group version that this server serves has a local APIService, as in kube-apiserver.
func TestLocalAPIServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := start(t, controlplane.Config{})
		synctest.Wait()
		got := automanaged(t, plane)
		for _, name := range []string{"v1.", "v1.apps", "v2.autoscaling", "v1.autoscaling", "v1.apiextensions.k8s.io",
			"v1.rbac.authorization.k8s.io"} {
			if got[name] != "onstart" {
				t.Errorf("%s: %q", name, got[name])
			}
		}
		if _, ok := got["v1.apiregistration.k8s.io"]; ok {
			t.Error("kube-apiserver has no APIService for APIServices")
		}
		// The objects equal those that a client's POST creates.
		_, atStart := ask(t, plane, root, "GET", apiServicesPath+"/v1.autoscaling", "")
		if code, answer := ask(t, plane, root, "DELETE", apiServicesPath+"/v1.autoscaling", ""); code != http.StatusOK {
			t.Fatal(answer)
		}
		code, posted := ask(t, plane, root, "POST", apiServicesPath+"?fieldManager=kube-apiserver", `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService",
			"metadata":{"name":"v1.autoscaling","labels":{"kube-aggregator.kubernetes.io/automanaged":"onstart"}},
			"spec":{"group":"autoscaling","version":"v1","groupPriorityMinimum":17500,"versionPriority":15}}`)
		if code != http.StatusCreated || comparable(t, atStart) != comparable(t, posted) {
			t.Errorf("created at the start:\n%s\nby a client:\n%s", comparable(t, atStart), comparable(t, posted))
		}
	})
}

// comparable returns an object without the fields that differ between all objects.
func comparable(t *testing.T, object string) string {
	t.Helper()
	var tree map[string]any
	require.NoError(t, json.Unmarshal([]byte(object), &tree))
	metadata := tree["metadata"].(map[string]any)
	delete(metadata, "uid")
	delete(metadata, "resourceVersion")
	out, err := json.MarshalIndent(tree, "", " ")
	require.NoError(t, err)
	return string(out)
}

// A start recreates deleted local APIServices, restores changed ones, ignores those without the
// label, and writes nothing if nothing has changed.
func TestLocalAPIServicesAfterRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := storetest.New(t, store.Config{})
		run := func(do func(plane *controlplane.ControlPlane)) {
			t.Helper()
			plane, err := controlplane.Start(t.Context(), controlplane.Config{Store: state, Controllers: controlplane.NoControllers{}})
			require.NoError(t, err)
			synctest.Wait()
			do(plane)
			synctest.Wait()
			plane.Stop()
		}
		send := func(plane *controlplane.ControlPlane, method, name, body string, want int) {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), method, "http://plane"+apiServicesPath+name,
				strings.NewReader(body))
			require.NoError(t, err)
			if req.Header.Set("Content-Type", "application/json"); method == "PATCH" {
				req.Header.Set("Content-Type", "application/merge-patch+json")
			}
			resp, err := plane.TransportAs(root).RoundTrip(req)
			if err != nil || resp.StatusCode != want {
				t.Fatal(method, name, resp.Status, err)
			}
			resp.Body.Close()
		}
		spurious := `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.%s","labels":{"kube-aggregator.kubernetes.io/automanaged":"onstart"}},
			"spec":{"group":%[1]q,"version":"v1","groupPriorityMinimum":10,"versionPriority":15}}`
		run(func(plane *controlplane.ControlPlane) {
			send(plane, "DELETE", "/v1.batch", "", 200)
			send(plane, "PATCH", "/v1.apps", `{"spec":{"groupPriorityMinimum":5,"service":{"namespace":"default","name":"x"}}}`, 200)
			send(plane, "PATCH", "/v1.policy", `{"metadata":{"labels":null},"spec":{"groupPriorityMinimum":5}}`, 200)
			send(plane, "POST", "", fmt.Sprintf(spurious, "gone.example.com"), 201)
		})
		run(func(plane *controlplane.ControlPlane) {
			got := automanaged(t, plane)
			if got["v1.batch"] != "onstart" || got["v1.policy"] != "" {
				t.Errorf("%q %q", got["v1.batch"], got["v1.policy"])
			}
			if _, ok := got["v1.gone.example.com"]; ok {
				t.Error("an APIService of a group version that is no longer served still exists")
			}
			for name, want := range map[string]string{"v1.apps": `"groupPriorityMinimum":17800`,
				"v1.policy": `"groupPriorityMinimum":5,`} {
				if _, answer := ask(t, plane, root, "GET", apiServicesPath+"/"+name, ""); !strings.Contains(answer,
					want) || strings.Contains(answer, `"service"`) {
					t.Errorf("%s: %s", name, answer)
				}
			}
			if _, answer := ask(t, plane, root, "GET", apiServicesPath+"/v1.apps", ""); !strings.Contains(answer,
				`"reason":"Local"`) {
				t.Errorf("the condition of an APIService that is local again: %s", answer)
			}
			// The priorities of APIServices order the groups.
			_, groups := ask(t, plane, root, "GET", "/apis", "")
			if i, j := strings.Index(groups, `"name":"policy"`),
				strings.Index(groups, `"name":"discovery.k8s.io"`); i < j {
				t.Errorf("a group of low priority is not last: %s", groups)
			}
		})
		before := state.Snapshot().Revision()
		run(func(*controlplane.ControlPlane) {})
		if after := state.Snapshot().Revision(); after != before {
			t.Errorf("a restart without changes wrote %d revisions", after-before)
		}
	})
}

// The APIServices of custom kinds follow their definitions continuously.
func TestCustomAPIServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := start(t, controlplane.Config{})
		crds := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		send := func(method, path, body string, want int) {
			t.Helper()
			if code, answer := ask(t, plane, root, method, path, body); code != want {
				t.Fatal(method, path, code, answer)
			}
			synctest.Wait()
		}
		custom := func(want ...string) {
			t.Helper()
			got := automanaged(t, plane)
			maps.DeleteFunc(got, func(_, label string) bool { return label != "true" })
			if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
				t.Errorf("APIServices of custom kinds: %v, want %v", names, want)
			}
		}
		custom()
		send("POST", crds, definition("things", "Thing", "Namespaced"), 201)
		send("POST", crds, definition("others", "Other", "Namespaced"), 201)
		custom("v1.probe.example.com")
		_, answer := ask(t, plane, root, "GET", apiServicesPath+"/v1.probe.example.com", "")
		for _, want := range []string{`"groupPriorityMinimum":1000,"versionPriority":100`, `"reason":"Local"`} {
			if !strings.Contains(answer, want) {
				t.Errorf("%s lacks %s", answer, want)
			}
		}
		send("DELETE", crds+"/things.probe.example.com", "", 200)
		custom("v1.probe.example.com")
		send("DELETE", apiServicesPath+"/v1.probe.example.com", "", 200)
		custom("v1.probe.example.com")

		// While a definition serves the group version, clients cannot register another server for
		// it, and the control plane undoes changes of the APIService.
		remote := `"spec":{"group":"probe.example.com","version":"v1","groupPriorityMinimum":10,"versionPriority":15,"insecureSkipTLSVerify":true,
			"service":{"namespace":"default","name":"none"}}}`
		send("POST", apiServicesPath, `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.probe.example.com"},`+remote, http.StatusConflict)
		_, stored := ask(t, plane, root, "GET", apiServicesPath+"/v1.probe.example.com", "")
		send("PUT", apiServicesPath+"/v1.probe.example.com",
			strings.Replace(stored, `"spec":{`,
				`"spec":{"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"none"},`, 1),
			http.StatusOK)
		if _, answer := ask(t, plane, root, "GET", apiServicesPath+"/v1.probe.example.com",
			""); strings.Contains(answer, `"service"`) ||
			!strings.Contains(answer, `"reason":"Local"`) {
			t.Errorf("a changed APIService of a custom kind: %s", answer)
		}
		send("GET", "/apis/probe.example.com/v1/others", "", http.StatusOK)
		send("DELETE", crds+"/others.probe.example.com", "", 200)
		custom()

		// An APIService of a user is left alone, and its server has precedence over the definition.
		send("POST", apiServicesPath, `{"apiVersion":"apiregistration.k8s.io/v1","kind":"APIService","metadata":{"name":"v1.probe.example.com"},
			"spec":{"group":"probe.example.com","version":"v1","groupPriorityMinimum":10,"versionPriority":15,"insecureSkipTLSVerify":true,
			"service":{"namespace":"default","name":"none"}}}`, 201)
		send("POST", crds, definition("things", "Thing", "Namespaced"), 201)
		custom()
		send("GET", "/apis/probe.example.com/v1/things", "", http.StatusServiceUnavailable)
		send("DELETE", apiServicesPath+"/v1.probe.example.com", "", 200)
		custom("v1.probe.example.com")
		send("GET", "/apis/probe.example.com/v1/things", "", http.StatusOK)
	})
}
