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

// Typical writes of an operator to small built-in objects that it owns, with labels and an owner
// reference; in memory, in process, one client.
func BenchmarkBuiltInKinds(b *testing.B) {
	plane := start(b, controlplane.Config{NoFastPaths: fastpath.DisabledByEnvironment()})
	client := &http.Client{Transport: plane.Transport()}
	do := func(b *testing.B, method, url, media, body string) {
		req, err := http.NewRequest(method, url, strings.NewReader(body))
		require.NoError(b, err)
		req.Header.Set("Content-Type", media)
		req.Header.Set("Accept", "application/vnd.kubernetes.protobuf,application/json")
		resp, err := client.Do(req)
		require.NoError(b, err)
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode >= 300 {
			b.Fatalf("%s %s: %s %s", method, url, resp.Status, answer)
		}
	}
	const options = "fieldManager=bench&fieldValidation=Ignore"
	n := 0
	for _, kind := range []struct{ name, path, content string }{
		{"ConfigMap", "api/v1/namespaces/default/configmaps", `"data":{"color":"blue","size":"%d"}`},
		{"Secret", "api/v1/namespaces/default/secrets", `"type":"Opaque","data":{"key":"dmFsdWU=","word":"%08d"}`},
		{"Deployment", "apis/apps/v1/namespaces/default/deployments",
			`"spec":{"replicas":%d,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},` +
				`"spec":{"containers":[{"name":"web","image":"example.com/web:v1","ports":[{"containerPort":80}],"env":[{"name":"A","value":"b"}]}]}}}`},
		{"Service", "api/v1/namespaces/default/services",
			`"spec":{"clusterIP":"None","selector":{"app":"web-%d"},"ports":[{"name":"http","port":80,"targetPort":8080}]}`},
		{"Pod", "api/v1/namespaces/default/pods",
			`"spec":{"nodeName":"n-%d","containers":[{"name":"web","image":"example.com/web:v1","ports":[{"containerPort":80}],"resources":{"requests":{"cpu":"100m"}}}]}`},
	} {
		version := strings.TrimPrefix(strings.TrimPrefix(strings.SplitN(kind.path, "/namespaces/", 2)[0], "apis/"),
			"api/")
		object := func(name string) string {
			return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":"default","labels":{"app":"bench","part":"of-it"},"ownerReferences":[`+
				`{"apiVersion":"bench.kelson.dev/v1","kind":"Widget","name":"w","uid":"5b0f1bd4-8f4b-4b77-8f0d-0c0ffee0c0de","controller":true,"blockOwnerDeletion":true}]},`+
				kind.content+`}`, version, kind.name, name, n)
		}
		url := "http://plane/" + kind.path
		b.Run("create "+kind.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n++
				do(b, http.MethodPost, url+"?"+options, "application/json", object(fmt.Sprintf("c%d", n)))
			}
		})
		b.Run("apply new "+kind.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n++
				name := fmt.Sprintf("a%d", n)
				do(b, http.MethodPatch, url+"/"+name+"?force=true&"+options, "application/apply-patch+yaml",
					object(name))
			}
		})
		b.Run("apply same "+kind.name, func(b *testing.B) {
			b.ReportAllocs()
			n++
			body := object("one")
			for b.Loop() {
				do(b, http.MethodPatch, url+"/one?force=true&"+options, "application/apply-patch+yaml", body)
			}
		})
		b.Run("patch "+kind.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n++
				do(b, http.MethodPatch, url+"/one?"+options, "application/merge-patch+json",
					fmt.Sprintf(`{"metadata":{"labels":{"app":"%d"}}}`, n))
			}
		})
		b.Run("apply other "+kind.name, func(b *testing.B) {
			b.ReportAllocs()
			if kind.name == "Pod" {
				b.Skip("the pod's node can't change")
			}
			for b.Loop() {
				n++
				do(b, http.MethodPatch, url+"/two?force=true&"+options, "application/apply-patch+yaml", object("two"))
			}
		})
		if kind.name != "Deployment" && kind.name != "Pod" {
			continue
		}
		b.Run("patch status of "+kind.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				n++
				do(b, http.MethodPatch, url+"/one/status?"+options, "application/merge-patch+json",
					fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","message":"%d"}]}}`, n))
			}
		})
	}
}
