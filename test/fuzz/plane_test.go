package fuzz

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

const (
	// maxTime is the maximum time of a response. It is a hundred times the usual, because fuzzing
	// machines are busy.
	maxTime = 20 * time.Second
	// maxAllocated is the maximum number of bytes allocated for a response.
	maxAllocated = 1 << 30
)

// plane is a control plane that records panics. The runs of one target share it, and must restore
// its state.
type plane struct {
	*controlplane.ControlPlane
	transport http.RoundTripper

	mu     sync.Mutex
	panics []string
}

// start starts a control plane with custom kinds and creates objects.
func start(f *testing.F, objects ...[2]string) *plane {
	p := &plane{}
	own, err := controlplane.Start(f.Context(), controlplane.Config{Controllers: controlplane.NoControllers{}, Log: slog.New(p)})
	require.NoError(f, err)
	f.Cleanup(own.Stop)
	storetest.Guard(f, own.Store())
	p.ControlPlane, p.transport = own, own.Transport()
	// pods need this service account
	account := [2]string{"/api/v1/namespaces/default/serviceaccounts", "{metadata: {name: default}}"}
	for _, object := range append([][2]string{{definitions, widgets}, account}, objects...) {
		if a := p.do(f, "POST", object[0], "", object[1], yaml); a.code != http.StatusCreated {
			f.Fatalf("%s: %d %s", object[0], a.code, a.body)
		}
	}
	return p
}

const (
	yaml        = "application/yaml"
	definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	widgets     = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.shop.example}, spec: {group: shop.example,
  names: {plural: widgets, kind: Widget, listKind: WidgetList, singular: widget}, scope: Namespaced, versions: [
  {name: v1, served: true, storage: true, subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}},
   additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}], selectableFields: [{jsonPath: .spec.size}],
   schema: {openAPIV3Schema: {type: object, properties: {
    spec: {type: object, x-kubernetes-validations: [{rule: "!has(self.size) || self.size < 1000000"}], properties: {
      size: {type: integer, default: 1}, at: {type: string, format: date-time, nullable: true}, any: {x-kubernetes-preserve-unknown-fields: true},
      either: {x-kubernetes-int-or-string: true}, tags: {type: array, x-kubernetes-list-type: set, items: {type: string}},
      parts: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, required: [name],
        properties: {name: {type: string}, count: {type: integer, default: 2}}}},
      template: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}}},
    status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}},
  {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`
)

// Handle implements [slog.Handler].
func (p *plane) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "panic") {
		text := r.Message
		r.Attrs(func(a slog.Attr) bool { text += "\n" + a.String(); return true })
		p.mu.Lock()
		defer p.mu.Unlock()
		p.panics = append(p.panics, text)
	}
	return nil
}

// Enabled implements [slog.Handler].
func (p *plane) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements [slog.Handler].
func (p *plane) WithAttrs([]slog.Attr) slog.Handler { return p }

// WithGroup implements [slog.Handler].
func (p *plane) WithGroup(string) slog.Handler { return p }

type answer struct {
	code int
	body []byte
}

// do sends a request. The path and the query may be invalid.
func (p *plane) do(t testing.TB, method, path, query, body string, media string, header ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), maxTime)
	defer cancel()
	return p.within(ctx, t, method, path, query, body, media, header...)
}

// within does the same as do, with a context that ends streams.
func (p *plane) within(ctx context.Context, t testing.TB, method, path, query, body string, media string,
	header ...string) answer {
	t.Helper()
	req := (&http.Request{Method: method, URL: &url.URL{Scheme: "http", Host: "kelson", Path: path, RawQuery: query},
		Host: "kelson", Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}).WithContext(ctx)
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	start, before := time.Now(), allocated()
	a := p.roundTrip(t, req)
	if took := time.Since(start); took >= maxTime {
		t.Errorf("%s %s?%s took %v for %q", method, path, query, took, body)
	}
	if bytes := allocated() - before; bytes > maxAllocated {
		t.Errorf("%s %s?%s took %d bytes for %q", method, path, query, bytes, body)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, text := range p.panics {
		t.Errorf("%s %s?%s %s %q: %s", method, path, query, media, body, text)
	}
	p.panics = nil
	return a
}

func (p *plane) roundTrip(t testing.TB, req *http.Request) answer {
	t.Helper()
	resp, err := p.transport.RoundTrip(req)
	if err != nil {
		return answer{}
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	_, err = body.ReadFrom(resp.Body)
	// Kubernetes' handler responds with an empty 406
	silent := req.Method == http.MethodHead || strings.HasPrefix(req.URL.Path, "/openapi/")
	if err == nil && resp.StatusCode >= 400 && body.Len() == 0 && !silent {
		t.Errorf("%s %s: %d without a message", req.Method, req.URL, resp.StatusCode)
	}
	return answer{resp.StatusCode, body.Bytes()}
}

// allocated returns the total bytes that the process has allocated.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// pick selects an element by a number from the fuzzer.
func pick[T any](n uint8, choices []T) T { return choices[int(n)%len(choices)] }
