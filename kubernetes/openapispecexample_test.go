package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"

	"kelson.dev/apiserver/openapi"
	"kelson.dev/apiserver/resource"
	"kelson.dev/kubernetes/openapispec"
)

// The index lists the group versions that the registry serves.
func Example_openAPI() {
	registry := resource.NewRegistry(&resource.Resource{Group: "apps", Plural: "deployments", Kind: "Deployment",
		Versions: []resource.Version{{Name: "v1"}}})
	handler := openapi.New(openapi.Config{Registry: registry, Packed: openapispec.Archive})
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/openapi/v3", nil))
	var index struct{ Paths map[string]any }
	if err := json.Unmarshal(w.Body.Bytes(), &index); err != nil {
		panic(err)
	}
	for _, path := range slices.Sorted(maps.Keys(index.Paths)) {
		fmt.Println(path)
	}
	// Output:
	// .well-known/openid-configuration
	// api
	// apis
	// apis/apps
	// apis/apps/v1
	// openid/v1/jwks
	// version
}
