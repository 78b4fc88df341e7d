package apitest_test

import (
	"bytes"
	"io"
	"testing"

	"kelson.dev/kubernetes/apitest"
)

// FuzzPatch checks that no patch makes the server panic, and that accepted objects can be read
// again.
func FuzzPatch(f *testing.F) {
	types := []string{"application/json-patch+json", "application/merge-patch+json",
		"application/strategic-merge-patch+json", "application/apply-patch+yaml", "application/apply-patch+cbor"}
	for i, body := range []string{
		`[{"op":"add","path":"/data","value":{"a":"b"}},{"op":"move","from":"/data/a","path":"/metadata/labels"}]`,
		`{"metadata":{"labels":{"a":null},"finalizers":[null]},"data":[]}`,
		`{"metadata":{"$patch":"replace"},"$setElementOrder/x":[1],"data":{"$retainKeys":["a"]}}`,
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, managedFields: []}\ndata: &x {a: *x}\n",
		"\xa1\x61a\xff",
		`{"data":{"$retainKeys":[["a"]],"k":"v"}}`,
		`null`, `[]`, `[null]`, `[{"op":"test","path":""}]`, `[{"op":"replace","path":""}]`, `""`, `{"metadata":null}`,
	} {
		f.Add(uint8(i), []byte(body))
		f.Add(uint8(0), []byte(body))
		f.Add(uint8(2), []byte(body))
	}
	p := apitest.New(f)
	p.Want(f, 201, "POST", maps, `{"metadata":{"name":"a"},"data":{"k":"v"}}`)
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		typ := types[int(kind)%len(types)]
		resp := p.Do(t, "PATCH", maps+"/a?fieldManager=f", string(body), "Content-Type: "+typ)
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		// Kubernetes responds with 500 to patches that its libraries can't apply. The message says
		// why.
		if len(answer) == 0 || bytes.Contains(answer, []byte("panic")) {
			t.Fatalf("%s %q: %d %s", typ, body, resp.StatusCode, answer)
		}
		if resp := p.Do(t, "GET", maps+"/a", ""); resp.StatusCode != 200 {
			p.Want(t, 201, "POST", maps, `{"metadata":{"name":"a"},"data":{"k":"v"}}`)
		}
	})
}
