package internal_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"kelson.dev/apiserver/openapi"
	"kelson.dev/apiserver/resource"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// get returns a document as a client gets it.
func get(t *testing.T, handler http.Handler, path, accept string) []byte {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, path, nil)
	req.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, req)
	if w.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.Bytes()
}

func part(t *testing.T, gv schema.GroupVersion, doc string) *openapi.Part {
	t.Helper()
	p, err := openapi.ParseV2([]byte(doc), gv)
	require.NoError(t, err)
	return p
}

// Definitions with the same name and meaning are shared, those with another meaning are renamed,
// and a server describes only its own paths.
func TestOthers(t *testing.T) {
	a, b := schema.GroupVersion{Group: "a.example.com", Version: "v1"},
		schema.GroupVersion{Group: "b.example.com", Version: "v1"}
	doc := func(gv schema.GroupVersion, foo string) string {
		return `{"swagger":"2.0","info":{"title":"t","version":"v"},"paths":{"/apis/` + gv.String() + `/foos":{
			"parameters":[{"$ref":"#/parameters/limit"}],
			"get":{"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/Foo"}}}}},"/apis/` + gv.Group + `/v10/foos":{}},
			"parameters":{"limit":{"in":"query","name":"limit","type":"integer"}},
			"definitions":{"Foo":` + foo + `,"Shared":{"type":"object","x-kubernetes-group-version-kind":[{"group":"` + gv.Group + `","kind":"S","version":"v1"}]},
			"com.example.v1.Thing":{"type":"string"}}}`
	}
	const foo = `{"type":"object","properties":{"shared":{"$ref":"#/definitions/Shared"},"thing":{"$ref":"#/definitions/com.example.v1.Thing"}}}`
	others := openapi.Others{
		a: {V2: part(t, a, doc(a, foo))},
		b: {V2: part(t, b, doc(b, strings.Replace(foo, `"type":"object"`, `"type":"object","description":"another"`,
			1)))},
		// It has no documents, and so hides those of this server.
		{Group: "example.com", Version: "v2"}: {},
	}
	current := &others
	registry := resource.NewRegistry(&resource.Resource{Group: "example.com", Plural: "things", Kind: "Thing",
		Versions: []resource.Version{{Name: "v1"}}})
	handler := openapi.New(openapi.Config{Registry: registry, Custom: things{}, Title: "Things", Version: "1",
		Others: func() *openapi.Others { return current }})
	var v2 spec.Swagger
	data := get(t, handler, "/openapi/v2", "application/json")
	require.NoError(t, json.Unmarshal(data, &v2))
	if len(v2.Paths.Paths) != 3 || len(v2.Parameters) != 1 {
		t.Errorf("paths %v, parameters %v", v2.Paths.Paths, v2.Parameters)
	}
	refs := map[string]string{} // the definition in the response of each path
	for path, item := range v2.Paths.Paths {
		if item.Get != nil {
			refs[path] = item.Get.Responses.StatusCodeResponses[200].Schema.Ref.String()
		}
	}
	if refs["/apis/a.example.com/v1/foos"] != "#/definitions/Foo" ||
		refs["/apis/b.example.com/v1/foos"] != "#/definitions/Foo_v2" {
		t.Error(refs)
	}
	// Foo, Foo_v2, Shared, Thing, Thing_v2
	if _, again := v2.Definitions["Shared_v2"]; again || len(v2.Definitions) != 5 {
		t.Errorf("%d definitions: %s", len(v2.Definitions), data)
	}
	thing := v2.Definitions["Foo"].Properties["thing"]
	assert.Equal(t, thing.Ref.String(), "#/definitions/com.example.v1.Thing_v2")
	var pb openapiv2.Document
	require.NoError(t, proto.Unmarshal(get(t, handler, "/openapi/v2",
		"application/com.github.proto-openapi.spec.v2.v1.0+protobuf"), &pb))
	if len(pb.GetPaths().GetPath()) != 3 || len(pb.GetDefinitions().GetAdditionalProperties()) != 5 {
		t.Errorf("protobuf: %v", &pb)
	}

	current = nil
	var alone spec.Swagger
	if err := json.Unmarshal(get(t, handler, "/openapi/v2", "application/json"), &alone); err != nil ||
		len(alone.Paths.Paths) != 1 {
		t.Errorf("without the others: %v %v", alone.Paths, err)
	}
}

// Documents that clients could not parse are refused.
func TestParseV2(t *testing.T) {
	gv := schema.GroupVersion{Group: "a.example.com", Version: "v1"}
	for _, doc := range []string{
		``, `[]`, `<html>`, `{"paths":[]}`, `{"paths":{"/apis/a.example.com/v1/foos":"x"}}`,
		`{"paths":{"/apis/a.example.com/v1/foos":{"get":{"responses":[]}}}}`,
		`{"paths":{"/apis/a.example.com/v1/foos":{"get":{"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/A"}}}}}},"definitions":{"A":7}}`,
	} {
		_, err := openapi.ParseV2([]byte(doc), gv)
		assert.ErrorContainsf(t, err, "parse OpenAPI document", "%s", doc)
	}
	// Invalid parts of other servers' documents are omitted.
	p := part(t, gv, `{"paths":{"/api/v1/pods":"x"},"definitions":{"A":7}}`)
	others := &openapi.Others{gv: {V2: p}}
	handler := openapi.New(openapi.Config{Registry: resource.NewRegistry(), Title: "t", Version: "v",
		Others: func() *openapi.Others { return others }})
	if data := get(t, handler, "/openapi/v2", "application/json"); strings.Contains(string(data), "pods") ||
		strings.Contains(string(data), `"A"`) {
		t.Errorf("%s", data)
	}
}
