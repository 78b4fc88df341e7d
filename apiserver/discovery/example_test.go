package discovery_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"kelson.dev/apiserver/discovery"
	"kelson.dev/apiserver/resource"
)

// A kind that is added to the registry appears at the next request.
func Example() {
	registry := resource.NewRegistry()
	handler := discovery.New(discovery.Config{Registry: registry})
	registry.Put(&resource.Resource{
		Group: "cnat.example.com", Plural: "ats", Singular: "at", Kind: "At", Namespaced: true,
		Versions: []resource.Version{{Name: "v1"}}, StorageVersion: "v1", Verbs: []string{"get", "list"},
	})
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/apis/cnat.example.com/v1", nil))
	fmt.Print(w.Body)
	// Output:
	// {"kind":"APIResourceList","apiVersion":"v1","groupVersion":"cnat.example.com/v1","resources":[{"name":"ats","singularName":"at","namespaced":true,"kind":"At","verbs":["get","list"],"storageVersionHash":"SIqsktqJYQE="}]}
}
