package internal_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"kelson.dev/apiserver/openapi"
	"kelson.dev/apiserver/resource"
	"kelson.dev/internal/require"
)

// things describes one custom kind, example.com/v1 Thing.
type things struct{}

func (things) OpenAPIHashes() map[schema.GroupVersion]string {
	return map[schema.GroupVersion]string{{Group: "example.com", Version: "v1"}: "1"}
}

func (things) OpenAPIV3(schema.GroupVersion) (*spec3.OpenAPI, error) {
	return &spec3.OpenAPI{Version: "3.0.0", Info: &spec.Info{InfoProps: spec.InfoProps{Title: "Things", Version: "v1"}},
		Paths: &spec3.Paths{}}, nil
}

func (things) OpenAPIV2(schema.GroupVersion) (*spec.Swagger, error) {
	return &spec.Swagger{SwaggerProps: spec.SwaggerProps{
		Definitions: spec.Definitions{"com.example.v1.Thing": {
			SchemaProps: spec.SchemaProps{Type: []string{"object"}}}},
		Paths: &spec.Paths{Paths: map[string]spec.PathItem{"/apis/example.com/v1/things": {}}},
	}}, nil
}

// A server without packed documents describes its custom kinds, under its own title, in all
// encodings.
func TestWithoutPackedDocuments(t *testing.T) {
	registry := resource.NewRegistry(&resource.Resource{Group: "example.com", Plural: "things", Kind: "Thing",
		Versions: []resource.Version{{Name: "v1"}}})
	handler := openapi.New(openapi.Config{Registry: registry, Custom: things{}, Title: "Things", Version: "1.2"})
	get := func(path, accept string) []byte {
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

	var index struct{ Paths map[string]any }
	if err := json.Unmarshal(get("/openapi/v3", "*/*"), &index); err != nil || len(index.Paths) != 1 ||
		index.Paths["apis/example.com/v1"] == nil {
		t.Errorf("index: %v, %v", index.Paths, err)
	}
	var v3 spec3.OpenAPI
	if err := json.Unmarshal(get("/openapi/v3/apis/example.com/v1", "application/json"), &v3); err != nil ||
		v3.Info.Title != "Things" {
		t.Errorf("v3: %v, %v", v3.Info, err)
	}

	var v2 spec.Swagger
	require.NoError(t, json.Unmarshal(get("/openapi/v2", "application/json"), &v2))
	if _, ok := v2.Definitions["com.example.v1.Thing"]; !ok || v2.Info.Title != "Things" || v2.Info.Version != "1.2" ||
		len(v2.Paths.Paths) != 1 {
		t.Errorf("v2: %v %v %v", v2.Info, v2.Definitions, v2.Paths)
	}
	var pb openapiv2.Document
	err := proto.Unmarshal(get("/openapi/v2", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"),
		&pb)
	require.NoError(t, err)
	if pb.GetInfo().GetTitle() != "Things" || len(pb.GetPaths().GetPath()) != 1 ||
		len(pb.GetDefinitions().GetAdditionalProperties()) != 1 {
		t.Errorf("v2 as protobuf: %v", &pb)
	}
}
