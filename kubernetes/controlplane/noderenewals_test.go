package controlplane_test

import (
	"bufio"
	"net/http"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/apiserver/inprocess"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controllers/simulatednodes"
	"kelson.dev/kubernetes/controlplane"
)

// varying are UIDs and revisions.
var varying = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|"resourceVersion":"\d+"`)

// A simulated node that renews its Lease without requests leaves what its requests would leave, in
// the events of a watch: when it is alone, when a user adds a field, takes the renewal time over or
// deletes the Lease, and while there is a webhook.
func TestRenewalsEqualRequests(t *testing.T) {
	const path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	run := func(byRequest bool) (events []string) {
		synctest.Test(t, func(t *testing.T) {
			cfg := controlplane.Config{Node: controlplane.Simulated{
				Groups: []simulatednodes.Group{{Count: 1}}, Lease: controlplane.NodeLease,
			}}
			if byRequest {
				// It could see requests.
				cfg.Requests = func(next http.RoundTripper) http.RoundTripper { return next }
			}
			plane := start(t, cfg)
			do := func(method, path, manager, body string) {
				t.Helper()
				call := inprocess.Call{Method: method, Path: path, UserAgent: manager, Body: []byte(body)}
				if method == http.MethodPatch {
					call.ContentType = "application/merge-patch+json"
				}
				answer, err := call.Open(t.Context(), plane.Transport())
				if err != nil {
					t.Error(method, path, err)
					return
				}
				answer.Close()
			}
			time.Sleep(time.Second)
			stream, err := inprocess.Call{Method: http.MethodGet, Path: path + "?watch=1"}.Open(t.Context(), plane.Transport())
			require.NoError(t, err)
			defer stream.Close()
			lines := make(chan string, 1000)
			go func() {
				defer close(lines)
				for s := bufio.NewScanner(stream); s.Scan(); {
					lines <- s.Text()
				}
			}()
			const lease = path + "/node-1"
			time.Sleep(time.Minute)
			do("PATCH", lease, "alice", `{"metadata":{"labels":{"a":"b"}}}`)
			time.Sleep(30 * time.Second)
			do("PATCH", lease, "alice", `{"spec":{"renewTime":"2000-01-01T00:00:00.000000Z"}}`)
			time.Sleep(time.Minute)
			do("DELETE", lease, "alice", "")
			time.Sleep(time.Minute)
			do("POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", "alice",
				`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"w"},"webhooks":[]}`)
			time.Sleep(30 * time.Second)
			do("DELETE", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/w", "alice", "")
			time.Sleep(30 * time.Second)
			synctest.Wait()
			if puts := requestsOf(t, plane, "PUT", "leases"); byRequest && puts < 20 || !byRequest && puts > 8 {
				t.Errorf("%d renewals by request: %v", puts, byRequest)
			}
			for len(lines) > 0 {
				events = append(events, varying.ReplaceAllString(<-lines, "X"))
			}
		})
		return events
	}
	requests, direct := run(true), run(false)
	if len(requests) < 20 {
		t.Fatalf("only %d events", len(requests))
	}
	for i := range min(len(requests), len(direct)) {
		if requests[i] != direct[i] {
			t.Fatalf("event %d:\n%s by request\n%s without", i, requests[i], direct[i])
		}
	}
	if len(requests) != len(direct) {
		t.Errorf("%d events by requests, %d without", len(requests), len(direct))
	}
}

// requestsOf returns how many requests with a verb the server has counted for a resource.
func requestsOf(t *testing.T, plane *controlplane.ControlPlane, verb, resource string) (n int) {
	t.Helper()
	for _, metric := range scrape(t, plane.Transport())["apiserver_request_total"].GetMetric() {
		labels := map[string]string{}
		for _, l := range metric.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["verb"] == verb && labels["resource"] == resource {
			n += int(metric.GetCounter().GetValue())
		}
	}
	return n
}
