package controlplane_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/filters"
	"kelson.dev/apiserver/pki"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// earlyRequest is a request that gets an early response and contains a new name each time.
type earlyRequest struct {
	code   int
	as     *user.DefaultInfo // nil: the user that the headers authenticate
	method string            // "" is GET
	path   string
	header []string
	body   func() io.Reader
}

var (
	anyone = &user.DefaultInfo{Name: "anyone"}
	master = &user.DefaultInfo{Name: "master", Groups: []string{user.SystemPrivilegedGroup}}
)

// earlyRequests trigger every early response of the pipeline and the verbs. %[1]s is replaced by a
// name that no earlier request had.
var earlyRequests = []earlyRequest{
	{code: 400, as: anyone, path: "/apis/%[1]s/v1/%[1]s", header: []string{"Impersonate-Uid: 1"}},
	{code: 422, as: master, method: "POST", path: "/api/v1/namespaces/%[1]s/configmaps?dryRun=%[1]s",
		body: sends(`{"metadata":{"name":"a"}}`)},
	{code: 401, path: "/apis/%[1]s/v1/%[1]s", header: []string{"Authorization: Bearer %[1]s"}},
	{code: 403, as: anyone, path: "/apis/%[1]s/v1/%[1]s"},
	{code: 403, as: anyone, path: "/apis/%[1]s/v1/%[1]s/%[1]s/%[1]s?watch=1&dryRun=%[1]s"},
	{code: 403, as: anyone, path: "/apis/%[1]s/v1/%[1]s", header: []string{"Impersonate-User: %[1]s"}},
	{code: 404, as: master, path: "/%[1]s"},
	{code: 404, as: master, path: "/apis/%[1]s/v1/%[1]s"},
	{code: 404, as: master, path: "/apis/%[1]s/v1/%[1]s?watch=1"},
	{code: 404, as: master, path: "/apis/apps/v1/%[1]s"},
	{code: 404, as: master, path: "/apis/apps/%[1]s/deployments"},
	{code: 404, as: master, path: "/api/v1/namespaces/x/pods/p/%[1]s"},
	{code: 404, as: master, path: "/api/v1/namespaces/x/pods/p/log/%[1]s"},
	{code: 404, as: master, method: "PUT", path: "/api/v1/namespaces/x/configmaps/c/%[1]s"},
	{code: 404, as: master, path: "/apis/stable.example.com/v1/namespaces/x/things/t/%[1]s"},
	{code: 404, as: master, path: "/apis/stable.example.com/%[1]s/namespaces/x/things"},
	{code: 404, as: master, path: "/api/v1/namespaces/%[1]s/pods/%[1]s"},
	{code: 405, as: master, method: "%[1]s", path: "/api/v1/namespaces/%[1]s/pods"},
	{code: 405, as: master, method: "PUT", path: "/api/v1/namespaces/%[1]s/pods"},
	{code: 405, as: master, method: "%[1]s", path: "/apis/stable.example.com/v1/namespaces/x/things/%[1]s"},
	{code: 413, as: master, method: "POST", path: "/api/v1/namespaces/%[1]s/configmaps", body: func() io.Reader {
		return tooLarge{}
	}},
	{code: 415, as: master, method: "PATCH", path: "/api/v1/namespaces/%[1]s/configmaps/%[1]s",
		header: []string{"Content-Type: application/%[1]s"}, body: sends(`{}`)},
	{code: 415, as: master, method: "POST", path: "/apis/stable.example.com/v1/namespaces/%[1]s/things",
		header: []string{"Content-Type: application/%[1]s"}, body: sends(`{}`)},
	{code: 429, as: anyone, path: "/apis/%[1]s/v1/%[1]s?watch=1"},
	{code: 429, as: anyone, path: "/api/v1/namespaces/%[1]s/%[1]s?watch=1"},
	{code: 429, as: anyone, path: "/apis/%[1]s/v1/namespaces/%[1]s/%[1]s/%[1]s/log"},
	{code: 500, as: master, path: "/apis/%[1]s/v1/watch"},
}

func sends(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }

// tooLarge is a body that exceeds the limit of its reader.
type tooLarge struct{}

func (tooLarge) Read([]byte) (int, error) { return 0, &http.MaxBytesError{Limit: 1} }

func (i earlyRequest) send(h http.Handler, name string) *httptest.ResponseRecorder {
	fill := func(format string) string { return strings.ReplaceAll(format, "%[1]s", name) }
	method, body := "GET", io.Reader(nil)
	if i.method != "" {
		method = fill(i.method)
	}
	if i.body != nil {
		body = i.body()
	}
	req := httptest.NewRequest(method, fill(i.path), body)
	if i.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, line := range i.header {
		key, value, _ := strings.Cut(line, ": ")
		req.Header.Set(key, fill(value))
	}
	if i.as != nil {
		as := *i.as
		if i.code == 429 {
			as.Name = "watcher" // the user already has a watch
		}
		req = req.WithContext(filters.WithUser(req.Context(), &as))
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// Names from clients create no time series and are not retained, whichever early response the
// client gets.
func TestInventedNamesCreateNoSeries(t *testing.T) {
	s := onPort(t, controlplane.Config{Controllers: controlplane.NoControllers{}, Limits: controlplane.Limits{LongRunningPerUser: 1}})
	response := require.Value[*http.Response](t)
	post := func(path, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://plane"+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp := response(s.Transport().RoundTrip(req))
		defer resp.Body.Close()
		if resp.StatusCode != 201 {
			answer, _ := io.ReadAll(resp.Body)
			t.Fatalf("%s: %s", resp.Status, answer)
		}
	}
	post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", `{"metadata":{"name":"things.stable.example.com"},"spec":{
		"group":"stable.example.com","scope":"Namespaced","names":{"plural":"things","kind":"Thing"},"versions":[{"name":"v1","served":true,"storage":true,
		"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`)
	post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", `{"metadata":{"name":"watcher"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"watcher"}]}`)
	watch, err := http.NewRequestWithContext(t.Context(), "GET", "http://plane/api/v1/configmaps?watch=1", nil)
	require.NoError(t, err)
	open := response(s.TransportAs(&user.DefaultInfo{Name: "watcher"}).RoundTrip(watch))
	defer open.Body.Close()
	if open.StatusCode != 200 {
		t.Fatal(open.Status)
	}

	count := 10_000
	if testing.Short() {
		count = 300
	}
	const fatNames = 64 // one of this many names is longer than the others
	name := func(i int) string {
		if i%fatNames == 0 {
			return fmt.Sprintf("invented%d%s", i, strings.Repeat("x", 64<<10))
		}
		return fmt.Sprintf("invented%d", i)
	}
	all := func(i int) {
		for _, r := range earlyRequests {
			if w := r.send(s.Handler(), name(i)); w.Code != r.code {
				t.Errorf("%s %s %v: %d %.300s, want %d", r.method, r.path, r.header, w.Code, w.Body, r.code)
			}
		}
	}
	all(1)
	tooLong(t, s, 1)
	if t.Failed() {
		t.FailNow()
	}
	seriesOf(t, s) // this request is counted, too
	before, heldBefore := seriesOf(t, s), held()
	for i := range count {
		all(i + 2)
	}
	for i := range min(count, 100) {
		tooLong(t, s, i+2) // net/http responds, before any code of the server runs
	}
	heldAfter := held()
	after := seriesOf(t, s)
	for _, series := range slices.Sorted(maps.Keys(after)) {
		if !before[series] {
			t.Errorf("a new series: %.200s", series)
			if len(after) > len(before)+20 {
				break
			}
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d series before, %d after", len(before), len(after))
	}
	const most = 8 << 20
	if heldAfter > heldBefore+most {
		t.Errorf("%d MiB are in use after %d requests, %d MiB before", heldAfter>>20, count*len(earlyRequests),
			heldBefore>>20)
	}
	t.Logf("%d series, %d KiB more than before", len(after), (int(heldAfter)-int(heldBefore))>>10)
}

// tooLong sends a request with a too large header over the network, which gets 431.
func tooLong(t *testing.T, s *site, i int) {
	t.Helper()
	path := fmt.Sprintf("/apis/invented%d/v1/%s", i, strings.Repeat("x", 1100<<10))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trusting(s.ca)}}
	defer client.CloseIdleConnections()
	resp, err := client.Get(s.url + path)
	require.NoError(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Fatalf("a path of %d bytes: %s", len(path), resp.Status)
	}
}

// seriesOf reads the names and labels of /metrics, without those of buckets: which buckets exist
// depends on how long requests took.
func seriesOf(t *testing.T, s *site) map[string]bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://plane/metrics", nil)
	require.NoError(t, err)
	resp, err := s.Transport().RoundTrip(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	all := map[string]bool{}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if line := lines.Text(); !strings.HasPrefix(line, "#") && !strings.Contains(line, "_bucket{") {
			all[line[:strings.LastIndexByte(line, ' ')]] = true
		}
	}
	require.NoError(t, lines.Err())
	return all
}

func trusting(ca *pki.Authority) *tls.Config { return &tls.Config{RootCAs: ca.Pool()} }
