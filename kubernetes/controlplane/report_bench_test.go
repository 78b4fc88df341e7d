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

// BenchmarkPodReports measures the two reports that an agent sends about a new pod: that its
// container waits, and that it runs. As with many pods, the process has many idle goroutines, so
// that Go starts new ones with small stacks.
func BenchmarkPodReports(b *testing.B) {
	plane := start(b, controlplane.Config{NoFastPaths: fastpath.DisabledByEnvironment()})
	idle := make(chan struct{})
	defer close(idle)
	for range 20_000 {
		go func() { <-idle }()
	}
	client := &http.Client{Transport: plane.Transport()}
	do := func(method, path, media, body string) {
		url := "http://plane/api/v1/namespaces/default/pods" + path
		req, err := http.NewRequest(method, url, strings.NewReader(body))
		require.NoError(b, err)
		req.Header.Set("Content-Type", media)
		req.Header.Set("User-Agent", "kubelet/n")
		req.Header.Set("Accept", "application/vnd.kubernetes.protobuf,application/json")
		resp, err := client.Do(req)
		require.NoError(b, err)
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode >= 300 {
			b.Fatalf("%s %s: %s %s", method, path, resp.Status, answer)
		}
	}
	report := func(ready, reason, state, more string) string {
		var conditions []string
		for _, c := range []string{"PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady",
			"Ready"} {
			status, why := "True", ""
			if strings.HasSuffix(c, "Ready") {
				status, why = ready, reason
			}
			conditions = append(conditions, fmt.Sprintf(`{"type":%q,"status":%q%s,"observedGeneration":1,`+
				`"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z"}`, c, status, why))
		}
		is := strings.ToLower(ready)
		return fmt.Sprintf(`{"status":{%s"conditions":[%s],"containerStatuses":[{"name":"app",`+
			`"image":"example.com/app:1","imageID":"","restartCount":0,`+
			`"started":%s,"ready":%s,"state":%s,"lastState":{}}]}}`,
			more, strings.Join(conditions, ","), is, is, state)
	}
	const strategic = "application/strategic-merge-patch+json"
	waits := report("False", `,"reason":"ContainersNotReady","message":"containers with unready status: [app]"`,
		`{"waiting":{"reason":"ContainerCreating"}}`,
		`"observedGeneration":1,"startTime":"2026-01-01T00:00:00Z","hostIP":"198.18.0.1",`+
			`"hostIPs":[{"ip":"198.18.0.1"}],"podIP":"10.244.0.1","podIPs":[{"ip":"10.244.0.1"}],`)
	runs := report("True", `,"reason":null,"message":null`, `{"running":{"startedAt":"2026-01-01T00:00:00Z"}}`,
		`"phase":"Running",`)
	const pod = `{"metadata":{"name":%q},` +
		`"spec":{"nodeName":"n","containers":[{"name":"app","image":"example.com/app:1"}]}}`
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		name := fmt.Sprintf("p%d", n)
		b.StopTimer()
		do(http.MethodPost, "", "application/json", fmt.Sprintf(pod, name))
		b.StartTimer()
		do(http.MethodPatch, "/"+name+"/status", strategic, waits)
		do(http.MethodPatch, "/"+name+"/status", strategic, runs)
	}
}
