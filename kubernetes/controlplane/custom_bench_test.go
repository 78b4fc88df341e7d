package controlplane_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"kelson.dev/apiserver/fastpath"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

const widgetDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.bench.kelson.dev"},
"spec":{"group":"bench.kelson.dev","scope":"Namespaced","names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","required":["count"],"properties":{
 "count":{"type":"integer","minimum":0},"owner":{"type":"string","maxLength":63},"paused":{"type":"boolean"},"note":{"type":"string"},
 "labels":{"type":"object","additionalProperties":{"type":"string"}},
 "steps":{"type":"array","items":{"type":"object","required":["name"],"properties":{"name":{"type":"string"},"image":{"type":"string"},
  "replicas":{"type":"integer","default":1},"args":{"type":"array","items":{"type":"string"}}}}}}},
"status":{"type":"object","properties":{"observed":{"type":"integer"},"phase":{"type":"string"},
 "conditions":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["type"],"items":{"type":"object","required":["type","status"],
  "properties":{"type":{"type":"string"},"status":{"type":"string"},"reason":{"type":"string"},"message":{"type":"string"}}}}}}}}}}]}}`

// The verbs on a custom resource of one kilobyte; in memory, in process, one client.
func BenchmarkCustomResources(b *testing.B) {
	plane := start(b, controlplane.Config{NoFastPaths: fastpath.DisabledByEnvironment()})
	client := &http.Client{Transport: plane.Transport()}
	const collection = "http://plane/apis/bench.kelson.dev/v1/namespaces/default/widgets"
	do := func(method, url, media, body string) string {
		req, err := http.NewRequest(method, url, strings.NewReader(body))
		require.NoError(b, err)
		req.Header.Set("Content-Type", media)
		resp, err := client.Do(req)
		require.NoError(b, err)
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode >= 300 {
			b.Fatalf("%s %s: %s %s", method, url, resp.Status, answer)
		}
		return string(answer)
	}
	do(http.MethodPost, "http://plane/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "application/json",
		widgetDefinition)
	spec := fmt.Sprintf(`"owner":"team-a","paused":false,"labels":{"tier":"backend","region":"north","stage":"canary"},"steps":[`+
		`{"name":"fetch","image":"registry.example.com/fetch:v1.2.3","replicas":2,"args":["--from","https://example.com/data","--retries","3"]},`+
		`{"name":"build","image":"registry.example.com/build:v1.2.3","replicas":1,"args":["--target","release","--jobs","8"]},`+
		`{"name":"store","image":"registry.example.com/store:v1.2.3","replicas":3,"args":["--bucket","results","--class","cold"]}],"note":"%s"`,
		strings.Repeat("n", 308))
	n := 0
	widget := func(name, revision, status string) string {
		return fmt.Sprintf(`{"apiVersion":"bench.kelson.dev/v1","kind":"Widget","metadata":{"name":%q%s},"spec":{"count":%d,%s}%s}`, name, revision, n, spec, status)
	}
	b.Run("create", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n++
			do(http.MethodPost, collection, "application/json", widget(fmt.Sprintf("w%d", n), "", ""))
		}
	})
	do(http.MethodPost, collection, "application/json", widget("one", "", ""))
	one := collection + "/one"
	b.Run("merge patch", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n++
			do(http.MethodPatch, one, "application/merge-patch+json", fmt.Sprintf(`{"spec":{"count":%d}}`, n))
		}
	})
	b.Run("update status", func(b *testing.B) {
		b.ReportAllocs()
		_, rest, _ := strings.Cut(do(http.MethodGet, one, "", ""), `"resourceVersion":"`)
		for b.Loop() {
			n++
			revision, _, _ := strings.Cut(rest, `"`)
			answer := do(http.MethodPut, one+"/status", "application/json",
				widget("one", `,"resourceVersion":"`+revision+`"`, fmt.Sprintf(
					`,"status":{"observed":%d,"phase":"Ready","conditions":[{"type":"Ready","status":"True","reason":"AllStepsDone","message":"all three steps have run"}]}`, n)))
			_, rest, _ = strings.Cut(answer, `"resourceVersion":"`)
		}
	})
	b.Run("apply", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n++
			do(http.MethodPatch, one+"?fieldManager=bench&force=true", "application/apply-patch+yaml",
				widget("one", "", ""))
		}
	})
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			do(http.MethodGet, one, "", "")
		}
	})
	b.Run("delete", func(b *testing.B) {
		b.ReportAllocs()
		first := n + 1
		for range b.N {
			n++
			do(http.MethodPost, collection, "application/json", widget(fmt.Sprintf("d%d", n), "", ""))
		}
		b.ResetTimer()
		for i := range b.N {
			do(http.MethodDelete, fmt.Sprintf("%s/d%d", collection, first+i), "", "")
		}
	})
}
