//go:build unix

package node_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"kelson.dev/kubernetes/apitest"
	"kelson.dev/kubernetes/controlplane"
)

// A process finds the files of the service account volume: a token that the API server accepts, the
// certificate, and the namespace.
func TestServiceAccountFiles(t *testing.T) {
	plane, err := controlplane.Start(t.Context(), controlplane.Config{
		Node: controlplane.Processes{Dir: t.TempDir()}, RootCA: []byte("the certificate"),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer plane.Stop()
	p := &apitest.Plane{Client: &http.Client{Transport: plane.Transport()}}
	const pods = "/api/v1/namespaces/default/pods"
	p.Want(t, 201, "POST", pods, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i",
		"command":["sh","-c","cd /var/run/secrets/kubernetes.io/serviceaccount && for f in namespace ca.crt token; do cat $f; echo; done"]}]}}`)
	events := p.Watch(t, pods+"?watch=1")
	defer events.Close()
	for phase := any(nil); phase != "Succeeded"; {
		_, pod, ok := events.Next(t)
		if phase = apitest.At(pod, "status", "phase"); !ok || phase == "Failed" {
			t.Fatalf("the pod: %v", pod)
		}
	}
	resp := p.Do(t, "GET", pods+"/a/log", "")
	defer resp.Body.Close()
	log, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(log), "\n")
	if len(lines) < 3 || lines[0] != "default" || lines[1] != "the certificate" {
		t.Fatalf("the files: %q", lines)
	}
	review, err := json.Marshal(map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": map[string]any{"token": lines[2]},
	})
	if err != nil {
		t.Fatal(err)
	}
	status := p.Want(t, 201, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", string(review))["status"]
	if user := apitest.At(status, "user", "username"); user != "system:serviceaccount:default:default" {
		t.Errorf("the token: %v", status)
	}
}
