package controlplane_test

import (
	"compress/gzip"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// nestedJSON returns a value nested n levels deep.
func nestedJSON(n int, value string) string {
	return strings.Repeat(`{"a":`, n) + value + strings.Repeat("}", n)
}

// field encodes a field of a protobuf message.
func field(number int, value []byte) []byte {
	out := binary.AppendUvarint(nil, uint64(number)<<3|2)
	return append(binary.AppendUvarint(out, uint64(len(value))), value...)
}

// nestedSchema returns a JSONSchemaProps in protobuf with as many levels of `not` as fit.
func nestedSchema(size int) []byte {
	out := make([]byte, size)
	at := size
	for {
		head := binary.AppendUvarint(binary.AppendUvarint(nil, 28<<3|2), uint64(size-at))
		if at < len(head) {
			return out[at:]
		}
		at -= len(head)
		copy(out[at:], head)
	}
}

// Excessive requests get 4xx, with little time and memory, and change nothing.
func TestLimitsOfBodies(t *testing.T) {
	plane := start(t, controlplane.Config{})
	client := &http.Client{Transport: plane.Transport()}
	do := func(method, path, media, body string) (code int, answer string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://plane"+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", media)
		if strings.HasPrefix(body, "\x1f\x8b") {
			req.Header.Set("Content-Encoding", "gzip")
		}
		resp, err := client.Do(req)
		require.NoError(t, err)
		raw := require.Body(t, resp)
		return resp.StatusCode, string(raw)
	}
	const (
		definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
		bags        = "/apis/x.io/v1/namespaces/default/bags"
		pods        = "/api/v1/namespaces/default/pods"
		jsonMedia   = "application/json"
		yamlMedia   = "application/yaml"
		cborMedia   = "application/cbor"
		protoMedia  = "application/vnd.kubernetes.protobuf"
		patchMedia  = "application/json-patch+json"
		mergeMedia  = "application/merge-patch+json"
		applyMedia  = "application/apply-patch+yaml"
	)
	if code, answer := do("POST", definitions, jsonMedia, bagDefinition); code != 201 {
		t.Fatal(code, answer)
	}
	bag := func(name, spec string) string {
		return fmt.Sprintf(`{"apiVersion":"x.io/v1","kind":"Bag","metadata":{"name":"%s"},"spec":%s}`, name, spec)
	}
	for name, spec := range map[string]string{"small": `{"list":[]}`, "deep": nestedJSON(3_000, "1")} {
		if code, answer := do("POST", bags, jsonMedia, bag(name, spec)); code != 201 {
			t.Fatal(code, answer)
		}
	}
	_, before := do("GET", bags, jsonMedia, "")
	large := `"` + strings.Repeat("x", 2<<20) + `"`
	operation := `{"op":"test","path":"/kind","value":"Bag"}`
	copies := `{"op":"add","path":"/spec/list/-","value":"` + strings.Repeat("x", 1_000) + `"}` +
		strings.Repeat(`,{"op":"copy","from":"/spec/list","path":"/spec/list/-"}`, 40)

	for _, test := range []struct {
		name, method, path, media, body string
		code                            int
		words                           string
	}{
		{"large", "POST", bags, jsonMedia, strings.Repeat(" ", 3<<20+1), 413,
			"Request entity too large: limit is 3145728"},
		{"large patch", "PATCH", bags + "/small", mergeMedia, strings.Repeat(" ", 3<<20+1), 413,
			"Request entity too large: limit is 3145728"},
		{"large options", "DELETE", bags + "/small", jsonMedia, strings.Repeat(" ", 3<<20+1), 413,
			"Request entity too large: limit is 3145728"},
		{"deep JSON", "POST", bags, jsonMedia, bag("x", nestedJSON(500_000, "1")), 400, "exceeded max depth"},
		{"deep arrays", "POST", bags, jsonMedia, bag("x", strings.Repeat("[", 3_000_000)), 400, "exceeded max depth"},
		{"deep YAML", "POST", bags, yamlMedia, bag("x", strings.Repeat("[", 400_000)), 400, "exceeded max depth"},
		{"deep YAML in blocks", "POST", bags, yamlMedia, strings.Repeat("- ", 400_000), 400, "exceeded max depth"},
		{"YAML aliases", "POST", bags, yamlMedia, billionLaughs(), 400, "document contains excessive aliasing"},
		{"applied YAML aliases", "PATCH", bags + "/y?fieldManager=m", applyMedia, billionLaughs(), 400,
			"document contains excessive aliasing"},
		{"deep applied YAML", "PATCH", bags + "/y?fieldManager=m", applyMedia, strings.Repeat("[", 400_000), 400,
			"exceeded max depth"},
		{"YAML nodes", "POST", bags, yamlMedia, "a: [" + strings.Repeat("a,", 600_000) + "a]", 413,
			"Request entity too large: limit is 500000 YAML nodes"},
		{"applied YAML nodes", "PATCH", bags + "/y?fieldManager=m", applyMedia,
			"a: [" + strings.Repeat("a,", 600_000) + "a]", 413, "limit is 500000 YAML nodes"},
		{"large YAML aliases", "POST", bags, yamlMedia, `a: &a "` + strings.Repeat("x", 1<<20) + "\"\nb: [" +
			strings.Repeat("*a,", 100_000) + "*a]",
			400, "document contains excessive aliasing"},
		{"objects", "POST", bags, jsonMedia, bag("x", "["+strings.Repeat("{},", 900_000)+"{}]"), 413,
			"Request entity too large: decoding it takes about"},
		{"messages", "POST", pods, "application/VND.Kubernetes.Protobuf; x=yaml", podInProtobuf(1_000_000), 413,
			"Request entity too large: decoding it takes about"},
		{"objects of a built-in kind", "POST", pods, jsonMedia,
			`{"spec":{"containers":[` + strings.Repeat("{},", 900_000) + `{}]}}`, 413,
			"Request entity too large: decoding it takes about"},
		{"gzip", "POST", bags, jsonMedia, zipped(bag("x", "{}")), 400, "invalid character"},
		{"false length in CBOR", "POST", bags, cborMedia, "\xd9\xd9\xf7\xa1\x61a\x5b\x00\x00\x00\x7f\xff\xff\xff\xff",
			400, "unexpected EOF"},
		{"false count in CBOR", "POST", bags, cborMedia, "\xd9\xd9\xf7\x9a\x7f\xff\xff\xff\x01", 400, "unexpected EOF"},
		{"false count of a map in CBOR", "POST", bags, cborMedia, "\xd9\xd9\xf7\xba\x00\x1f\xff\xff\x61a\x01", 400,
			"unexpected EOF"},
		{"false length in protobuf", "POST", definitions, protoMedia, "k8s\x00\x12\xff\xff\xff\xff\x07a", 400,
			"unexpected EOF"},
		{"false length within protobuf", "POST", definitions, protoMedia,
			"k8s\x00" + string(append(field(1, append(field(1, []byte("apiextensions.k8s.io/v1")),
				field(2, []byte("CustomResourceDefinition"))...)), field(2, []byte("\x0a\xff\xff\xff\xff\x07a"))...)),
			400, "unexpected EOF"},
		{"deep CBOR", "POST", bags, cborMedia, "\xd9\xd9\xf7" + strings.Repeat("\x81", 3_000_000), 400,
			"exceeded max nested level"},
		{"wide CBOR", "POST", bags, cborMedia, "\xd9\xd9\xf7\x9b\x7f\xff\xff\xff\xff\xff\xff\xff\x01", 400,
			"exceeded max number of elements"},
		{"deep protobuf", "POST", definitions, protoMedia, protobufDefinition(2_900_000), 400, "exceeded max depth"},
		{"protobuf of the maximum depth", "POST", definitions, protoMedia, protobufDefinition(10_000), 422,
			"is invalid"},
		{"operations", "PATCH", bags + "/small", patchMedia,
			"[" + strings.Repeat(operation+",", 10_000) + operation + "]",
			413, "The allowed maximum operations in a JSON patch is 10000, got 10001"},
		{"copies", "PATCH", bags + "/small", patchMedia, "[" + copies + "]", 422,
			"the server rejected our request due to an error in our request"},
		{"deep merge patch", "PATCH", bags + "/small", mergeMedia, `{"spec":` + nestedJSON(3_000, large) + `}`, 413,
			"nested too deeply"},
		{"large value at a deep path", "PATCH", bags + "/deep", patchMedia,
			`[{"op":"add","path":"/spec` + strings.Repeat("/a", 2_900) + `","value":` + large + `}]`, 413,
			"nested too deeply"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			code, answer := do(test.method, test.path, test.media, test.body)
			runtime.ReadMemStats(&after)
			if took := (after.TotalAlloc - before.TotalAlloc) >> 20; strings.HasPrefix(test.name, "false") &&
				took > 50 {
				t.Errorf("%d MiB were allocated", took)
			}
			if code != test.code || !strings.Contains(answer, test.words) ||
				!strings.Contains(answer, `"kind":"Status"`) {
				t.Errorf("%d %.400s\nwant %d and %q", code, answer, test.code, test.words)
			}
		})
	}
	if _, after := do("GET", bags, jsonMedia, ""); after != before {
		t.Error("a request changed the state")
	}
	if code, answer := do("PATCH", bags+"/small", patchMedia,
		"["+strings.Repeat(operation+",", 9_999)+operation+"]"); code != 200 {
		t.Errorf("the maximum number of operations: %d %.400s", code, answer)
	}
	if code, answer := do("PATCH", bags+"/deep", patchMedia, `[{"op":"add","path":"/spec/b","value":1}]`); code != 200 {
		t.Errorf("a small change of a deep object: %d %.400s", code, answer)
	}
}

const bagDefinition = `{"metadata":{"name":"bags.x.io"},"spec":{"group":"x.io","names":{"plural":"bags","kind":"Bag"},"scope":"Namespaced","versions":[
{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// billionLaughs returns a small YAML document that expands to a huge one.
func billionLaughs() string {
	var b strings.Builder
	b.WriteString("apiVersion: x.io/v1\nkind: Bag\nmetadata: {name: l}\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := range 12 {
		fmt.Fprintf(&b, "a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9), i)
	}
	return b.String()
}

// zipped returns a compressed body. As in kube-apiserver, nothing decompresses it.
func zipped(body string) string {
	var out strings.Builder
	w := gzip.NewWriter(&out)
	io.WriteString(w, body)
	w.Close()
	return out.String()
}

// protobufDefinition returns a CustomResourceDefinition with a schema nested in the given number of
// bytes.
func protobufDefinition(size int) string {
	kind := append(field(1, []byte("apiextensions.k8s.io/v1")), field(2, []byte("CustomResourceDefinition"))...)
	version := append(field(1, []byte("v1")), 2<<3, 1, 3<<3, 1)
	version = append(version, field(4, field(1, nestedSchema(size)))...)
	spec := append(field(1, []byte("x.io")), field(3, append(field(1, []byte("cups")), field(4, []byte("Cup"))...))...)
	spec = append(append(spec, field(4, []byte("Namespaced"))...), field(7, version)...)
	definition := append(field(1, field(1, []byte("cups.x.io"))), field(2, spec)...)
	return "k8s\x00" + string(append(field(1, kind), field(2, definition)...))
}

// Headers larger than a mebibyte, over HTTP/1.1 and HTTP/2, get 431, and the server keeps working.
func TestLimitOfHeaders(t *testing.T) {
	s := onPort(t, controlplane.Config{Controllers: controlplane.NoControllers{}})
	for _, http2 := range []bool{false, true} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.ca.Pool()}, ForceAttemptHTTP2: http2}
		defer transport.CloseIdleConnections()
		for size, want := range map[int]int{1 << 10: http.StatusOK, 2 << 20: http.StatusRequestHeaderFieldsTooLarge} {
			req, err := http.NewRequestWithContext(t.Context(), "GET", s.url+"/livez", nil)
			require.NoError(t, err)
			req.Header.Set("X-Large", strings.Repeat("x", size))
			resp, err := transport.RoundTrip(req)
			if err != nil {
				if want == http.StatusOK {
					t.Errorf("HTTP/2 %v, %d bytes: %v", http2, size, err)
				}
				continue // the client got the status, or the connection ended while it wrote
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("HTTP/2 %v, %d bytes: %s, want %d", http2, size, resp.Status, want)
			}
		}
	}
	if who := s.who(t, nil, "Authorization: Bearer wrong"); who != "401 Unauthorized" {
		t.Error(who)
	}
}
