package controlplane_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/apitest"
	"kelson.dev/kubernetes/controlplane"
)

// Prometheus' own parser can read /metrics, and the counters increase.
func TestMetrics(t *testing.T) {
	// so that no other component writes
	s := onPort(t, controlplane.Config{Controllers: controlplane.NoControllers{}})
	send := func(transport http.RoundTripper, method, path, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://plane"+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		resp.Body.Close()
	}
	metrics := func() map[string]*dto.MetricFamily { return scrape(t, s.Transport()) }
	send(s.Transport(), "POST", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", `{"metadata":{"name":"w"},"webhooks":[
		{"name":"w.x.io","clientConfig":{"url":"https://127.0.0.1:1/"},"failurePolicy":"Ignore","sideEffects":"None","admissionReviewVersions":["v1"],
		 "rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}]}]}`)
	before := metrics()
	const configMaps = "/api/v1/namespaces/default/configmaps"
	send(s.Transport(), "POST", configMaps, `{"metadata":{"name":"m"},"data":{"a":"b"}}`)
	send(s.Transport(), "POST", configMaps, `{"metadata":{"name":"m"}}`) // exists
	send(s.TransportAs(&user.DefaultInfo{Name: "stranger"}), "GET", configMaps, "")
	if who := s.who(t, nil, "Authorization: Bearer wrong"); who != "401 Unauthorized" {
		t.Error(who)
	}
	watch, err := http.NewRequestWithContext(t.Context(), "GET", "http://plane"+configMaps+"?watch=1", nil)
	require.NoError(t, err)
	resp, err := s.Transport().RoundTrip(watch)
	require.NoError(t, err)
	_, err = io.ReadAtLeast(resp.Body, make([]byte, 1), 1)
	require.NoError(t, err)
	after := metrics()
	resp.Body.Close()

	for _, test := range []struct {
		name, labels string // labels is "name=value"; one of several is enough
		more         float64
	}{
		{"kelson_store_commits_total", "", 1},
		{"kelson_store_objects", "", 1},
		{"kelson_store_batch_writes", "", 1},
		{"kelson_store_watch_log_events", "", 1},
		{"kelson_store_commit_duration_seconds", "", 1},
		{"kelson_store_publish_duration_seconds", "", 1},
		{"kelson_request_decode_duration_seconds", "", 2},
		{"apiserver_admission_step_admission_duration_seconds", "type=admit", 2},
		{"apiserver_admission_step_admission_duration_seconds", "type=validate", 2},
		{"apiserver_resource_objects", "resource=configmaps", 1},
		{"apiserver_storage_objects", "resource=configmaps", 1},
		{"apiserver_watch_events_total", "resource=configmaps", 1},
		{"apiserver_watch_events_sizes", "resource=configmaps", 1},
		{"apiserver_request_sli_duration_seconds", "verb=POST", 3}, // by client type
		{"authorization_attempts_total", "result=no-opinion", 1},
		{"authorization_duration_seconds", "result=no-opinion", 1},
		{"authentication_attempts", "result=error", 1},
		{"apiserver_longrunning_requests", "resource=configmaps", 1},
		{"apiserver_request_total", "code=409", 1},
		{"apiserver_admission_webhook_fail_open_count", "name=w.x.io", 2},
	} {
		if more := value(after[test.name], test.labels) - value(before[test.name], test.labels); more != test.more {
			t.Errorf("%s %s: %v more, want %v", test.name, test.labels, more, test.more)
		}
	}
	for _, name := range []string{"apiserver_current_inflight_requests", "kelson_store_watch_log_bytes",
		"kelson_store_append_duration_seconds",
		"kelson_store_checkpoints_total", "go_goroutines", "process_cpu_seconds_total",
		"apiserver_request_duration_seconds",
		"kelson_store_queue_length", "kelson_store_pinned_snapshots", "kelson_store_checkpoint_duration_seconds"} {
		if after[name] == nil {
			t.Errorf("missing %s; have %v", name, slices.Sorted(maps.Keys(after)))
		}
	}
}

// scrape reads /metrics.
func scrape(t *testing.T, transport http.RoundTripper) map[string]*dto.MetricFamily {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://plane/metrics", nil)
	require.NoError(t, err)
	resp, err := transport.RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	require.NoError(t, err)
	return families
}

// Metrics of admission policies by policy, binding and result; of service account tokens; and of
// pod security evaluations.
func TestMetricsOfPolicies(t *testing.T) {
	cp := start(t, controlplane.Config{Controllers: controlplane.NoControllers{}})
	p := &apitest.Plane{Client: &http.Client{Transport: cp.Transport()}}
	const group = "/apis/admissionregistration.k8s.io/v1/"
	const match = `"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}]}`
	p.Want(t, 201, "POST", group+"validatingadmissionpolicies", `{"metadata":{"name":"counted"},"spec":{`+match+`,
		"validations":[{"expression":"!has(object.data.bad)","message":"it is bad"}]}}`)
	p.Want(t, 201, "POST", group+"validatingadmissionpolicybindings",
		`{"metadata":{"name":"here"},"spec":{"policyName":"counted","validationActions":["Deny","Audit"]}}`)
	p.Want(t, 201, "POST", group+"mutatingadmissionpolicies", `{"metadata":{"name":"counted"},"spec":{"reinvocationPolicy":"Never",`+match+`,
		"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: \"add\", path: \"/metadata/labels\", value: {\"a\": \"b\"}}]"}}]}}`)
	p.Want(t, 201, "POST", group+"mutatingadmissionpolicybindings",
		`{"metadata":{"name":"there"},"spec":{"policyName":"counted"}}`)
	const ns, pod = "/api/v1/namespaces/default/",
		`{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	p.Want(t, 201, "POST", ns+"serviceaccounts", `{"metadata":{"name":"default"}}`)
	bound := apitest.At(p.Want(t, 201, "POST", ns+"pods", pod), "metadata", "uid")
	p.Want(t, 200, "PATCH", "/api/v1/namespaces/default",
		`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`,
		"Content-Type: application/merge-patch+json")
	before := scrape(t, cp.Transport())
	p.Want(t, 201, "POST", ns+"configmaps", `{"metadata":{"name":"good"},"data":{"a":"b"}}`)
	p.Want(t, 422, "POST", ns+"configmaps", `{"metadata":{"name":"bad"},"data":{"bad":"yes"}}`)
	// kubelets request this lifetime; later uses are counted as stale
	token := p.Want(t, 201, "POST", ns+"serviceaccounts/default/token", fmt.Sprintf(
		`{"spec":{"expirationSeconds":3607,"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"p","uid":%q}}}`,
		bound))
	p.Want(t, 201, "POST", "/apis/authentication.k8s.io/v1/tokenreviews",
		fmt.Sprintf(`{"spec":{"token":%q}}`, apitest.At(token, "status", "token")))
	p.Want(t, 403, "POST", ns+"pods", strings.Replace(pod, `"p"`, `"q"`, 1))
	after := scrape(t, cp.Transport())
	for _, test := range []struct {
		name, labels string
		more         float64
	}{
		{"apiserver_validating_admission_policy_check_total", "enforcement_action=deny", 1},
		{"apiserver_validating_admission_policy_check_total", "enforcement_action=audit", 1},
		{"apiserver_validating_admission_policy_check_total", "policy_binding=here", 2},
		{"apiserver_validating_admission_policy_check_duration_seconds", "policy=counted", 2},
		{"apiserver_mutating_admission_policy_check_total", "policy_binding=there", 2},
		{"apiserver_mutating_admission_policy_check_duration_seconds", "error_type=no_error", 2},
		{"serviceaccount_valid_tokens_total", "", 1},
		{"pod_security_evaluations_total", "decision=deny", 1},
		{"pod_security_evaluations_total", "policy_level=restricted", 1},
	} {
		if more := value(after[test.name], test.labels) - value(before[test.name], test.labels); more != test.more {
			t.Errorf("%s %s: %v more, want %v", test.name, test.labels, more, test.more)
		}
	}
}

// value returns the sum, or the number of observations, of the metrics with a label.
func value(family *dto.MetricFamily, label string) (sum float64) {
	for _, m := range family.GetMetric() {
		found := label == ""
		for _, l := range m.GetLabel() {
			found = found || l.GetName()+"="+l.GetValue() == label
		}
		if !found {
			continue
		}
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetSummary().GetSampleSum() +
			float64(m.GetHistogram().GetSampleCount())
	}
	return sum
}
