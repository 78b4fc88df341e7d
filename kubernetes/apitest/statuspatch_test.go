package apitest_test

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"kelson.dev/apiserver/rest"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/apitest"
)

// Strategic merge patches of a status have the same results and errors with and without the fast
// path, which merges the status alone.
func TestStatusPatches(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","labels":{"a":"b"},"annotations":{"c":"d"}},` +
		`"spec":{"nodeName":"n","hostNetwork":true,"tolerations":[{"key":"x","operator":"Exists"}],` +
		`"volumes":[{"name":"v","emptyDir":{}}],"containers":[{"name":"c","image":"i",` +
		`"ports":[{"containerPort":80}],"resources":{"limits":{"cpu":"1"}}}]}}`
	const node = `{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"},"spec":{"podCIDR":"10.0.0.0/24"}}`
	const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},` +
		`"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},` +
		`"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	const since = `"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z"`
	const ready = `{"status":{"conditions":[{"type":"Ready","status":"False",` + since + `},` +
		`{"type":"Initialized","status":"True",` + since + `}]}}`
	for name, object := range map[string]struct {
		path, body string
		patches    []string
	}{
		"pod": {"/api/v1/namespaces/default/pods", pod, []string{
			ready,
			`{"status":{"phase":"Running","podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}],` +
				`"startTime":"2026-01-01T00:00:00Z"}}`,
			`{"metadata":{"uid":"UID"},"status":{"conditions":[{"type":"Ready","status":"True","reason":null}],` +
				`"$setElementOrder/conditions":[{"type":"Initialized"},{"type":"Ready"}]}}`,
			`{"status":{"containerStatuses":[{"name":"c","image":"i","imageID":"","ready":true,"restartCount":1,` +
				`"state":{"running":{}}}]}}`,
			`{"status":{"conditions":[{"$patch":"delete","type":"Initialized"}]}}`,
			`{"status":{"reason":"r"},"metadata":{"labels":{"new":"1"},"annotations":{"new":"1"}}}`,
			`{"status":{"message":"m"},"spec":{"nodeName":"other"}}`,
			`{"status":{"unknown":1}}`, `{"status":{"phase":7}}`, `{"status":{"phase":"Running","phase":"Failed"}}`,
			`{"status":null}`, `{"status":[]}`, `{"status":"x"}`, `{}`, `{`,
			`{"metadata":{"uid":"other"},"status":{"phase":"Failed"}}`,
			`{"status":{"$patch":"replace","phase":"Pending"}}`, `{"status":{"phase":"Nonsense"}}`,
			`{"status":{"$patch":"nonsense"}}`, `{"status":{"conditions":[{"status":"True"}]}}`,
			`{"status":{"conditions":null}}`, `{"status":{"phase":null,"containerStatuses":null}}`, `{"status":{}}`,
		}},
		"node": {"/api/v1/nodes", node, []string{
			`{"status":{"capacity":{"cpu":"4","memory":"1024Mi"},` +
				`"addresses":[{"type":"InternalIP","address":"10.0.0.1"}]}}`,
			`{"status":{"capacity":{"cpu":"4000m"},"addresses":[{"type":"InternalIP","address":"10.0.0.2"}]}}`,
			`{"status":{"capacity":{"cpu":"x"}}}`, `{"status":{"capacity":{"memory":null}}}`, ready,
		}},
		"deployment": {"/apis/apps/v1/namespaces/default/deployments", deployment, []string{
			`{"status":{"replicas":3,"readyReplicas":2,"observedGeneration":1}}`, `{"status":{"replicas":-1}}`,
			`{"status":{"readyReplicas":null,"conditions":[{"type":"Available","status":"True"}]}}`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, validation := range []string{"Ignore", "Warn", "Strict"} {
				var results [2][]string
				for i, plain := range []bool{false, true} {
					synctest.Test(t, func(t *testing.T) {
						results[i] = statusPatches(t, plain, object.path, object.body, validation, object.patches)
					})
				}
				for i, patch := range object.patches {
					assert.Equalf(t, results[0][i], results[1][i], "%s %s", validation, patch)
				}
			}
		})
	}
}

// statusPatches returns the responses to patches of the status of a new object, and their warnings.
func statusPatches(t *testing.T, plain bool, path, body, validation string, patches []string) (results []string) {
	p := apitest.New(t, func(cfg *rest.Config) { cfg.NoFastPaths = plain })
	uid := apitest.At(p.Want(t, 201, "POST", path, body), "metadata", "uid").(string)
	for _, patch := range patches {
		resp := p.Do(t, "PATCH", path+"/a/status?fieldManager=m&fieldValidation="+validation,
			strings.ReplaceAll(patch, "UID", uid), "Content-Type: application/strategic-merge-patch+json")
		answer, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		text := fmt.Sprintf("%d %q %s", resp.StatusCode, resp.Header.Values("Warning"), answer)
		results = append(results, strings.ReplaceAll(text, uid, "UID"))
	}
	return results
}

// A patch of the status of a large pod takes the fast path, too: it does not decode the spec to
// maps, which need far more memory than the pod.
func TestStatusPatchOfLargePod(t *testing.T) {
	p := apitest.New(t, func(cfg *rest.Config) { cfg.NoFastPaths = false })
	items := make([]string, 4000)
	for i := range items {
		items[i] = fmt.Sprintf(`{"key":"k%d","path":"p%d"}`, i, i)
	}
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"nodeName":"n","containers":[` +
		`{"name":"c","image":"i"}],"volumes":[{"name":"v","configMap":{"name":"m","items":[` +
		strings.Join(items, ",") + `]}}]}}`
	p.Want(t, 201, "POST", "/api/v1/namespaces/default/pods", pod)
	const patches = 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range patches {
		resp := p.Do(t, "PATCH", "/api/v1/namespaces/default/pods/a/status", fmt.Sprintf(
			`{"status":{"message":"m%d"}}`, i), "Content-Type: application/strategic-merge-patch+json")
		if _, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 {
			t.Fatal(resp.Status, err)
		}
	}
	runtime.ReadMemStats(&after)
	each := (after.TotalAlloc - before.TotalAlloc) / patches
	t.Logf("%d bytes for each patch of a pod of %d", each, len(pod))
	if limit := uint64(40 * len(pod)); each > limit {
		t.Errorf("a patch allocates %d bytes, more than %d", each, limit)
	}
}
