package main

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
)

const (
	asDiscovery     = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	asDiscoveryBeta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
)

// documentStreams compare the documents of a server: discovery, OpenAPI, health, version, and
// unknown paths.
func documentStreams(ctx context.Context, peer *side) ([]*stream, error) {
	get := func(label, path string, accept ...string) step {
		s := step{label: label, method: http.MethodGet, path: path}
		if len(accept) > 0 {
			s.header = map[string]string{"Accept": accept[0]}
		}
		return s
	}
	var discovery []step
	kinds, err := discover(ctx, peer)
	if err != nil {
		return nil, err
	}
	paths := map[string]bool{}
	for _, k := range kinds {
		paths[k.root()] = true
		if k.group != "" {
			paths["/apis/"+k.group] = true
		}
	}
	for _, path := range append([]string{"/api", "/apis"}, slices.Sorted(maps.Keys(paths))...) {
		for label, media := range inOrder(map[string]string{"": "", "protobuf": mediaProtobuf, "yaml": mediaYAML,
			"xml":        "application/xml",
			"aggregated": asDiscovery, "aggregated beta": asDiscoveryBeta,
			"kubectl's": asDiscovery + "," + asDiscoveryBeta + ",application/json"}) {
			discovery = append(discovery, get("discovery "+label, path, media))
		}
		discovery = append(discovery, get("discovery slash", path+"/"),
			step{label: "discovery post", method: http.MethodPost, path: path, body: raw("{}")},
			step{label: "discovery head", method: http.MethodHead, path: path},
			step{label: "discovery delete", method: http.MethodDelete, path: path})
	}
	a := peer.send(ctx, &step{method: http.MethodGet, path: "/openapi/v3"}, newMemory())
	openapi := []step{get("openapi v3", "/openapi/v3"), get("openapi v2", "/openapi/v2"),
		get("openapi v2 json", "/openapi/v2", "application/json"),
		get("openapi v2 protobuf", "/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"),
		get("openapi v2 xml", "/openapi/v2", "application/xml"),
		get("openapi v3 missing", "/openapi/v3/apis/nothing/v1"),
		get("openapi v3 protobuf", "/openapi/v3/apis/apps/v1",
			"application/com.github.proto-openapi.spec.v3@v1.0+protobuf"),
		get("openapi v3 xml", "/openapi/v3/apis/apps/v1", "application/xml")}
	documents, _ := at(a.body, "paths").(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(documents)) {
		openapi = append(openapi, get("openapi v3 document "+path, "/openapi/v3/"+path))
	}
	var paths2 []step
	for _, path := range []string{"/version", "/version/", "/healthz", "/livez", "/readyz", "/healthz/ping",
		"/livez/ping", "/readyz/ping", "/healthz/nothing", "/healthz?verbose", "/livez?verbose",
		"/readyz?verbose", "/readyz?exclude=ping", "/readyz?verbose&exclude=nothing", "/healthz/etcd", "/", "/nothing",
		"/index.html", "/api/v2", "/api/v2/pods", "/api/v1/nothing", "/api/v1/nothing/a",
		"/api/v1/namespaces/default/nothing", "/apis/nothing", "/apis/nothing/v1", "/apis/nothing/v1/things",
		"/apis/apps/v9", "/apis/apps/v9/deployments", "/apis/apps/v1/nothing",
		"/api/v1/watch/namespaces?timeoutSeconds=1",
		"/api/v1/watch/namespaces/default/configmaps/nothing?timeoutSeconds=1",
		"/api/v1/proxy/namespaces/default/pods/a", "/openid/v1/jwks", "/.well-known/openid-configuration",
		"/swagger.json", "/swaggerapi", "/ui", "/logs", "/debug/pprof", "/debug/pprof/", "/debug/flags/v", "/configz",
		"/statusz", "/flagz", "/metrics/slis", "/api/v1/componentstatuses", "/api/v1//pods", "//api",
		"/api/v1/../v1/pods",
		"/api/v1/namespaces/", "/api/v1/namespaces//pods", "/apis/", "/api/", "/openapi", "/openapi/v2/",
		"/openapi/v3/", "/healthz/", "/healthz/poststarthook/rbac/bootstrap-roles"} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodHead} {
			if method != http.MethodGet && (strings.Contains(path, "watch") || strings.Contains(path, "?")) {
				continue
			}
			paths2 = append(paths2, step{label: method + " " + path, method: method, path: path,
				watch: strings.Contains(path, "/watch/") && method == http.MethodGet})
		}
		for label, media := range inOrder(map[string]string{"protobuf": mediaProtobuf, "yaml": mediaYAML,
			"xml": "application/xml"}) {
			s := get(label+" "+path, path, media)
			s.watch = strings.Contains(path, "/watch/")
			paths2 = append(paths2, s)
		}
	}
	fixed := func(name string, steps []step) *stream {
		return &stream{name: name, steps: func(string) []step { return steps }}
	}
	return []*stream{fixed("documents/discovery", discovery), fixed("documents/openapi", openapi),
		fixed("documents/paths", paths2)}, nil
}
