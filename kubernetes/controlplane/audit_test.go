package controlplane_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"kelson.dev/apiserver/audit"
	"kelson.dev/apiserver/authn"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, users: [kelson-admin, "system:apiserver", "system:kube-controller-manager"]}
- {level: None, userGroups: ["system:serviceaccounts:kube-system"]}
- {level: None, nonResourceURLs: [/healthz]}
- {level: Metadata, resources: [{group: "", resources: [secrets]}]}
- {level: Request, resources: [{group: "", resources: [services, serviceaccounts/token]}]}
- {level: RequestResponse, omitManagedFields: true, resources: [{group: "", resources: [configmaps]}]}
- {level: Metadata}
`

// recorded is a control plane with an audit log.
type recorded struct {
	*site
	log   string
	token string
}

func record(t *testing.T, change func(*audit.Config)) *recorded {
	t.Helper()
	dir := t.TempDir()
	r := &recorded{log: filepath.Join(dir, "audit.log"), token: "s3cr3t-t0ken"}
	cfg := audit.Defaults()
	cfg.PolicyFile, cfg.Log.Path = filepath.Join(dir, "policy.yaml"), r.log
	write(t, cfg.PolicyFile, []byte(auditPolicy))
	if change != nil {
		change(&cfg)
	}
	trail, err := audit.Open(cfg)
	require.NoError(t, err)
	tokens := filepath.Join(dir, "tokens.csv")
	write(t, tokens, []byte(r.token+",jane,7,system:masters\nother,bob,8\n"))
	// Created before the control plane, and therefore closed after it.
	t.Cleanup(func() {
		if err := trail.Close(); err != nil {
			t.Error(err)
		}
	})
	r.site = onPort(t, controlplane.Config{
		Audit:          controlplane.Audit{Policy: trail, Sink: trail},
		Authentication: controlplane.Authentication{Config: authn.Config{TokenFile: tokens}},
	})
	return r
}

// do sends a request over HTTPS and returns the status code.
func (r *recorded) do(method, path, token, media, body string) int {
	req, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	if err != nil {
		return -1
	}
	req.Header.Set("Content-Type", media)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: r.ca.Pool()}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func (r *recorded) events(t *testing.T) []auditv1.Event {
	t.Helper()
	raw, err := os.ReadFile(r.log)
	require.NoError(t, err)
	if bytes.Contains(raw, []byte(r.token)) {
		t.Error("the log has a token")
	}
	var all []auditv1.Event
	for line := range strings.Lines(string(raw)) {
		var e auditv1.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, e)
	}
	return all
}

func object(t *testing.T, raw []byte) string { return string(bytes.TrimSpace(raw)) }

// Audit logging: levels, objects of all verbs, annotations, refused requests; each request once.
func TestAudit(t *testing.T) {
	r := record(t, nil)
	const maps, jsonMedia = "/api/v1/namespaces/default/configmaps", "application/json"
	for _, step := range []struct {
		method, path, token, media, body string
		code                             int
		level, verb, request, response   string
	}{
		{"POST", maps, r.token, jsonMedia, `{"metadata":{"name":"a"},"data":{"k":"v1"}}`, 201, "RequestResponse",
			"create", `"k":"v1"`, `"uid":`},
		{"PUT", maps + "/a", r.token, "application/yaml", "metadata: {name: a}\ndata: {k: v2}", 200, "RequestResponse",
			"update", `"k":"v2"`, `"k":"v2"`},
		{"PATCH", maps + "/a", r.token, "application/merge-patch+json", `{"data":{"k":"v3"}}`, 200, "RequestResponse",
			"patch", `{"data":{"k":"v3"}}`, `"k":"v3"`},
		{"PATCH", maps + "/b?fieldManager=m", r.token, "application/apply-patch+yaml",
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}", 201, "RequestResponse", "patch", `"name":"b"`,
			`"name":"b"`},
		{"GET", maps + "/a", r.token, "", "", 200, "RequestResponse", "get", "", `"k":"v3"`},
		{"GET", maps, r.token, "", "", 200, "RequestResponse", "list", "", `"kind":"ConfigMapList"`},
		{"DELETE", maps + "/a", r.token, jsonMedia,
			`{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`, 200, "RequestResponse",
			"delete", `"propagationPolicy":"Background"`, `"status":"Success"`},
		{"GET", maps + "/a", r.token, "", "", 404, "RequestResponse", "get", "", `"reason":"NotFound"`},
		{"POST", "/api/v1/namespaces/default/secrets", r.token, jsonMedia,
			`{"metadata":{"name":"s"},"data":{"k":"aGlkZGVu"}}`, 201, "Metadata", "create", "", ""},
		{"POST", "/api/v1/namespaces/default/services", r.token, jsonMedia,
			`{"metadata":{"name":"s"},"spec":{"ports":[{"port":80}]}}`, 201, "Request", "create", `"port":80`, ""},
		{"POST", "/api/v1/namespaces/default/serviceaccounts/default/token", "other", jsonMedia,
			`{"kind":"TokenRequest"}`, 403, "Request", "create", "", ""},
		{"POST", "/api/v1/namespaces/default/serviceaccounts/default/token", r.token, jsonMedia,
			`{"kind":"TokenRequest","spec":{"audiences":["a"]}}`, 201, "Request", "create", `"audiences":["a"]`, ""},
		{"GET", "/api/v1/namespaces/default/endpoints", r.token, "", "", 200, "Metadata", "list", "", ""},
		{"GET", "/version", "", "", "", 200, "Metadata", "get", "", ""},
		{"GET", "/healthz", "", "", "", 200, "", "", "", ""},
	} {
		before := len(r.events(t))
		if code := r.do(step.method, step.path, step.token, step.media, step.body); code != step.code {
			t.Fatalf("%s %s: %d, want %d", step.method, step.path, code, step.code)
		}
		events := r.events(t)[before:]
		if step.level == "" {
			if len(events) != 0 {
				t.Errorf("%s: recorded, want no event", step.path)
			}
			continue
		}
		if len(events) != 1 {
			t.Errorf("%s %s: %d events, want 1", step.method, step.path, len(events))
			continue
		}
		e := events[0]
		var request, response string
		if e.RequestObject != nil {
			request = object(t, e.RequestObject.Raw)
		}
		if e.ResponseObject != nil {
			response = object(t, e.ResponseObject.Raw)
		}
		if string(e.Level) != step.level || e.Verb != step.verb || e.Stage != "ResponseComplete" || e.AuditID == "" ||
			e.ResponseStatus == nil || int(e.ResponseStatus.Code) != step.code || e.RequestURI != step.path {
			t.Errorf("%s %s: %+v", step.method, step.path, e)
		}
		if (request == "") != (step.request == "") || !strings.Contains(request, step.request) {
			t.Errorf("%s %s: request %q, want %q", step.method, step.path, request, step.request)
		}
		if (response == "") != (step.response == "") || !strings.Contains(response, step.response) ||
			strings.Contains(response, "managedFields") {
			t.Errorf("%s %s: response %q, want %q", step.method, step.path, response, step.response)
		}
		decision := map[bool]string{true: "forbid", false: "allow"}[step.code == 403]
		if got := e.Annotations["authorization.k8s.io/decision"]; got != decision {
			t.Errorf("%s %s: decision %q", step.method, step.path, got)
		}
		if got := e.Annotations["k8s.io/deprecated"]; (got == "true") != strings.HasSuffix(step.path, "/endpoints") {
			t.Errorf("%s %s: deprecated %q", step.method, step.path, got)
		}
	}
	before := len(r.events(t))
	if code := r.do("GET", maps, "wrong", "", ""); code != http.StatusUnauthorized {
		t.Fatal(code)
	}
	if events := r.events(t)[before:]; len(events) != 1 || events[0].ResponseStatus.Code != 401 ||
		events[0].ResponseStatus.Reason != "Unauthorized" {
		t.Errorf("refused: %+v", events)
	}
}

// A watch is recorded when it starts and when it ends.
func TestAuditOfWatch(t *testing.T) {
	r := record(t, nil)
	if code := r.do("GET", "/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=1", r.token, "",
		""); code != http.StatusOK {
		t.Fatal(code)
	}
	var stages []string
	for _, e := range r.events(t) {
		stages = append(stages, e.Verb+" "+string(e.Stage))
	}
	if got := fmt.Sprint(stages); got != "[watch ResponseStarted watch ResponseComplete]" {
		t.Error(got)
	}
}

// The webhook receives all events, in batches, including those that are buffered when the server
// stops.
func TestAuditWebhook(t *testing.T) {
	var mu sync.Mutex
	got, batches := map[string]int{}, 0
	hook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var list auditv1.EventList
		if err := json.NewDecoder(req.Body).Decode(&list); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		batches++
		for _, e := range list.Items {
			got[string(e.AuditID)]++
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{}`)
	}))
	defer hook.Close()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, file, fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],
		"users":[{"name":"u","user":{}}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"current-context":"x"}`, hook.URL))
	const requests = 25
	t.Run("requests", func(t *testing.T) {
		r := record(t, func(cfg *audit.Config) {
			cfg.Log.Path, cfg.Webhook.ConfigFile = "", file
			cfg.Webhook.Delivery.Batch.MaxBatchWait, cfg.Webhook.Delivery.Batch.MaxBatchSize = time.Hour, 10
		})
		for range requests {
			r.do("GET", "/version", "", "", "")
		}
	})
	mu.Lock()
	defer mu.Unlock()
	if len(got) != requests || batches != 3 {
		t.Errorf("%d events in %d batches", len(got), batches)
	}
	for id, n := range got {
		if n != 1 {
			t.Errorf("event %s was sent %d times", id, n)
		}
	}
}
