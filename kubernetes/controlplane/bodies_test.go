package controlplane_test

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"kelson.dev/apiserver/rest/wire"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

var measure = flag.Bool("measure", false, "measure the memory that decoding bodies takes (TestNeed, with -v)")

// Compares wire.Need's estimates of decoding memory with the memory actually used. -measure
// -v prints the worst cases.
func TestNeed(t *testing.T) {
	if !*measure {
		t.Skip("without -measure")
	}
	plane := start(t, controlplane.Config{})
	client := &http.Client{Transport: plane.Transport()}
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	do := func(path, media, body string) (int, string) {
		method := "POST"
		if strings.Contains(media, "patch") {
			method, path = "PATCH", strings.Replace(path, "?", "/p?fieldManager=m&", 1)
		}
		req, _ := http.NewRequestWithContext(t.Context(), method, "http://plane"+path, strings.NewReader(body))
		req.Header.Set("Content-Type", media)
		resp, err := client.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return resp.StatusCode, string(answer)
	}
	const (
		pods        = "/api/v1/namespaces/default/pods?dryRun=All"
		maps        = "/api/v1/namespaces/default/configmaps?dryRun=All"
		reviews     = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
		bags        = "/apis/x.io/v1/namespaces/default/bags?dryRun=All"
		definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	)
	if code, answer := do(definitions, "application/json", bagDefinition); code != 201 {
		t.Fatal(code, answer)
	}
	pod := func(n int) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[` +
			strings.Repeat("{},", n-1) + `{}]}}`
	}
	bag := func(spec string) string {
		return `{"apiVersion":"x.io/v1","kind":"Bag","metadata":{"name":"b"},"spec":` + spec + `}`
	}
	// {"apiVersion":"x.io/v1","kind":"Bag","metadata":{"name":"b"},"spec":[…]}
	cbor := func(n int, item string) string {
		return "\xd9\xd9\xf7\xa4\x6aapiVersion\x67x.io/v1\x64kind\x63Bag\x68metadata\xa1\x64name\x61b\x64spec" +
			string(binary.BigEndian.AppendUint32([]byte{0x9a}, uint32(n))) + strings.Repeat(item, n)
	}
	const n = 30_000
	for _, test := range []struct{ what, path, media, body string }{
		{"one string, JSON", maps, "application/json", `{"metadata":{"name":"a"},"data":{"a":"` +
			strings.Repeat("x", 900_000) + `"}}`},
		{"empty containers, JSON", pods, "application/json", pod(n / 10)},
		{"empty containers, YAML", pods, "application/yaml", pod(n / 10)},
		{"empty containers, protobuf", pods, "application/vnd.kubernetes.protobuf", podInProtobuf(n / 10)},
		{"many empty containers, JSON", pods, "application/json", pod(2 * n)},
		{"many empty containers, protobuf", pods, "application/vnd.kubernetes.protobuf", podInProtobuf(2 * n)},
		{"empty volumes, JSON", pods, "application/json", strings.Replace(pod(n/10), "containers", "volumes", 1)},
		{"empty variables, JSON", pods, "application/json",
			`{"metadata":{"name":"p"},"spec":{"containers":[{"env":` + empties(n/10) + `}]}}`},
		{"empty ports, JSON", "/api/v1/namespaces/default/services?dryRun=All", "application/json",
			`{"metadata":{"name":"s"},"spec":{"ports":` + empties(n/10) + `}}`},
		{"empty rules, JSON", "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies?dryRun=All",
			"application/json", `{"metadata":{"name":"p"},"spec":{"ingress":` + empties(n/10) + `}}`},
		{"empty webhooks, JSON", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations?dryRun=All",
			"application/json", `{"metadata":{"name":"w"},"webhooks":` + empties(n/10) + `}`},
		{"named containers, JSON", pods, "application/json", strings.Replace(pod(1), "[{}]", named(n), 1)},
		{"named volumes, JSON", pods, "application/json",
			strings.Replace(pod(1), "[{}]", `[{}],"volumes":`+named(n), 1)},
		{"named containers in a Deployment, JSON", "/apis/apps/v1/namespaces/default/deployments?dryRun=All",
			"application/json", `{"metadata":{"name":"d"},"spec":{"template":{"spec":{"containers":` + named(n) +
				`}}}}`},
		{"empty containers in a Deployment, JSON", "/apis/apps/v1/namespaces/default/deployments?dryRun=All",
			"application/json", `{"metadata":{"name":"d"},"spec":{"template":{"spec":{"containers":` + empties(n) +
				`}}}}`},
		{"empty claims, JSON", "/apis/apps/v1/namespaces/default/statefulsets?dryRun=All", "application/json",
			`{"metadata":{"name":"d"},"spec":{"volumeClaimTemplates":` + empties(n) + `}}`},
		{"empty metrics, JSON", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers?dryRun=All",
			"application/json", `{"metadata":{"name":"d"},"spec":{"metrics":` + empties(n) + `}}`},
		{"empty subsets, JSON", "/api/v1/namespaces/default/endpoints?dryRun=All", "application/json",
			`{"metadata":{"name":"d"},"subsets":` + empties(n) + `}`},
		{"empty addresses, JSON", "/api/v1/namespaces/default/endpoints?dryRun=All", "application/json",
			`{"metadata":{"name":"d"},"subsets":[{"addresses":` + empties(n) + `}]}`},
		{"empty paths, JSON", "/apis/networking.k8s.io/v1/namespaces/default/ingresses?dryRun=All", "application/json",
			`{"metadata":{"name":"d"},"spec":{"rules":` + empties(n) + `}}`},
		{"empty schemas in a list, JSON", definitions + "?dryRun=All", "application/json",
			strings.NewReplacer("bags", "sacks", "Bag", "Sack", `"type":"object"`,
				`"type":"object","anyOf":`+empties(n)).Replace(bagDefinition)},
		{"empty versions, JSON", definitions + "?dryRun=All", "application/json",
			`{"metadata":{"name":"sacks.x.io"},"spec":{"group":"x.io","names":{"plural":"sacks","kind":"Sack"},"scope":"Namespaced","versions":` + empties(n) + `}}`},
		{"containers, PATCH apply", pods, "application/apply-patch+yaml", strings.Replace(pod(1), "[{}]", named(n), 1)},
		{"empty schemas, JSON", definitions + "?dryRun=All", "application/json",
			strings.NewReplacer("bags", "sacks", "Bag", "Sack", `"type":"object"`,
				`"type":"object","properties":{`+schemas(n/10)+`}`).Replace(bagDefinition)},
		{"empty objects, JSON", bags, "application/json", bag("[" + strings.Repeat("{},", n) + "{}]")},
		{"small objects, JSON", bags, "application/json", bag("[" + strings.Repeat(`{"a":1},`, n) + "{}]")},
		{"objects in objects, JSON", bags, "application/json", bag("[" + strings.Repeat(`{"a":{"b":{}}},`, n) + "{}]")},
		{"members, JSON", bags, "application/json", bag("{" + members(n) + "}")},
		{"numbers, JSON", bags, "application/json", bag("[" + strings.Repeat("0,", 10*n) + "0]")},
		{"arrays, JSON", bags, "application/json", bag("[" + strings.Repeat("[],", 10*n) + "0]")},
		{"values, YAML, a review", reviews, "application/yaml", "a: [" + strings.Repeat("a,", 10*n) + "a]"},
		{"items, YAML, a review", reviews, "application/yaml", "a:\n" + strings.Repeat("- a\n", 10*n)},
		{"maps in braces, YAML, a review", reviews, "application/yaml", "a: [" + strings.Repeat("{a},", n) + "a]"},
		{"maps, YAML, a review", reviews, "application/yaml", "a:\n" + strings.Repeat("- a:\n", n)},
		{"keys, YAML, a review", reviews, "application/yaml", yamlKeys(n)},
		{"empty objects, CBOR", bags, "application/cbor", cbor(n, "\xa0")},
		{"empty arrays, CBOR", bags, "application/cbor", cbor(10*n, "\x80")},
	} {
		var before runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		peak, stop := make(chan uint64), make(chan bool)
		go func() {
			var most uint64
			for tick := time.NewTicker(2 * time.Millisecond); ; {
				select {
				case <-stop:
					peak <- most
					return
				case <-tick.C:
					var now runtime.MemStats
					runtime.ReadMemStats(&now)
					most = max(most, now.HeapAlloc)
				}
			}
		}()
		start := time.Now()
		code, answer := do(test.path, test.media, test.body)
		took := time.Since(start).Round(time.Millisecond)
		close(stop)
		used := int64(max(<-peak, before.HeapAlloc) - before.HeapAlloc)
		need, err := wire.Need(test.media, []byte(test.body), 3<<20)
		t.Logf("%-32s %8d bytes: estimated %4d MiB, used %4d MiB, %.2f; %v, %d %.60s %v", test.what, len(test.body),
			need>>20, used>>20, float64(used)/float64(need), took, code, answer, err)
	}
}

// podInProtobuf returns a Pod with n empty containers.
func podInProtobuf(n int) string {
	spec := strings.Repeat("\x12\x00", n)
	kind := append(field(1, []byte("v1")), field(2, []byte("Pod"))...)
	return "k8s\x00" + string(append(field(1, kind),
		field(2, append(field(1, field(1, []byte("p"))), field(2, []byte(spec))...))...))
}

func empties(n int) string { return "[" + strings.Repeat("{},", n-1) + "{}]" }

func named(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"name":"c%d"},`, i)
	}
	return "[" + b.String() + `{"name":"c"}]`
}

func schemas(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"p%d":{},`, i)
	}
	return b.String() + `"x":{"type":"string"}`
}

func members(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"%d":0,`, i)
	}
	return b.String() + `"x":0`
}

func yamlKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d:\n", i)
	}
	return b.String()
}
