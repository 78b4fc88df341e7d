package kubernetes_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	openapiv3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"kelson.dev/apiserver/openapi"
	"kelson.dev/apiserver/resource"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/openapispec"
)

// The archive has the documents of the module in go.mod; `go generate` updates it.
func TestArchiveIsCurrent(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	require.NoError(t, err)
	entries := packed(t, "v3/", ".json")
	files, err := os.ReadDir(filepath.Join(strings.TrimSpace(string(dir)), "api", "openapi-spec", "v3"))
	require.NoError(t, err)
	if len(entries) != len(files) {
		t.Errorf("the archive has %d documents, the module has %d", len(entries), len(files))
	}
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "api", "openapi-spec", "v3",
			file.Name()))
		require.NoError(t, err)
		path := strings.ReplaceAll(strings.TrimSuffix(file.Name(), "_openapi.json"), "__", "/")
		entry := entries[path]
		if !reflect.DeepEqual(bare(t, entry.data), bare(t, data)) ||
			entry.comment != fmt.Sprintf("%X", sha256.Sum256(entry.data)) {
			t.Errorf("%s differs from the module", path)
		}
	}
}

// entry is a file of the archive.
type entry struct {
	comment string
	data    []byte
}

// packed returns the archive's entries whose names have a prefix and a suffix. The keys are the
// names without both.
func packed(t *testing.T, folder, suffix string) map[string]entry {
	t.Helper()
	r, err := zip.NewReader(strings.NewReader(openapispec.Archive), int64(len(openapispec.Archive)))
	require.NoError(t, err)
	out := map[string]entry{}
	for _, f := range r.File {
		name, inFolder := strings.CutPrefix(f.Name, folder)
		name, matches := strings.CutSuffix(name, suffix)
		if !inFolder || !matches {
			continue
		}
		content, err := f.Open()
		require.NoError(t, err)
		data, err := io.ReadAll(content)
		require.NoError(t, err)
		out[name] = entry{f.Comment, data}
	}
	return out
}

// bare returns a document without the parts that package generate adds.
func bare(t *testing.T, data []byte) any {
	t.Helper()
	var doc map[string]any
	require.NoError(t, json.Unmarshal(data, &doc))
	delete(doc["info"].(map[string]any), "version")
	var strip func(v any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if _, isText := v["type"].(string); isText {
				delete(v, "enum")
				delete(v, "description")
			}
			for _, value := range v {
				strip(value)
			}
		case []any:
			for _, value := range v {
				strip(value)
			}
		}
	}
	strip(doc)
	return doc
}

// The documents have the enum values of fields, for kubectl explain.
func TestEnums(t *testing.T) {
	h, _ := serving(nil, "v1")
	var doc spec3.OpenAPI
	require.NoError(t, json.Unmarshal(get(h, "/openapi/v3/api/v1").Body.Bytes(), &doc))
	policy := doc.Components.Schemas["io.k8s.api.core.v1.PodSpec"].Properties["restartPolicy"]
	if len(policy.Enum) != 3 || !strings.Contains(policy.Description, "Possible enum values") ||
		doc.Info.Version != "1.37" {
		t.Errorf("%s: %v %s", doc.Info.Version, policy.Enum, policy.Description)
	}
	var swagger spec.Swagger
	require.NoError(t, json.Unmarshal(get(h, "/openapi/v2").Body.Bytes(), &swagger))
	if policy := swagger.Definitions["io.k8s.api.core.v1.PodSpec"].Properties["restartPolicy"]; len(policy.Enum) != 3 ||
		swagger.Info.Version != "1.37" {
		t.Errorf("%s: %v", swagger.Info.Version, policy.Enum)
	}
	for name := range swagger.Parameters {
		if strings.HasPrefix(name, "logpath") {
			t.Errorf("parameter %s of a path that is not served", name)
		}
	}
}

// A request for a part of a document, and a conditional request.
func TestPartsOfDocuments(t *testing.T) {
	h, _ := serving(nil, "v1")
	w := get(h, "/openapi/v3", "Range", "bytes=0-8")
	if w.Code != http.StatusPartialContent || w.Body.String() != `{"paths":` ||
		w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
	got := get(h, "/openapi/v3", "If-None-Match", w.Header().Get("Etag")).Code
	assert.Equalf(t, got, http.StatusNotModified, "If-None-Match")
	for path, body := range map[string]string{"/openapi/v2/": "404 page not found\n", "/openapi/v3/apis/nothing": "",
		"/openapi/v3/": ""} {
		if w := get(h, path); w.Code != 404 || w.Body.String() != body {
			t.Errorf("%s: %d %q", path, w.Code, w.Body)
		}
	}
}

// serving returns a handler of a control plane with the given group versions.
func serving(custom openapi.Custom, gvs ...string) (*openapi.Handler, *resource.Registry) {
	registry := resource.NewRegistry()
	for i, gv := range gvs {
		parsed, _ := schema.ParseGroupVersion(gv)
		registry.Put(&resource.Resource{Group: parsed.Group, Plural: fmt.Sprintf("r%d", i),
			Versions: []resource.Version{{Name: parsed.Version}}})
	}
	return openapi.New(openapi.Config{Registry: registry, Custom: custom, Packed: openapispec.Archive}), registry
}

func get(h http.Handler, path string, header ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

func unzip(t testing.TB, data []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	out, err := io.ReadAll(r)
	require.NoError(t, err)
	return out
}

func paths(t testing.TB, h http.Handler) map[string]string {
	t.Helper()
	var index handler3.OpenAPIV3Discovery
	require.NoError(t, json.Unmarshal(get(h, "/openapi/v3").Body.Bytes(), &index))
	out := map[string]string{}
	for path, item := range index.Paths {
		out[path] = item.ServerRelativeURL
	}
	return out
}

// The index lists each served version with the URL of its document, which is served as JSON and
// protobuf, compressed on request. A URL with an old hash redirects to the current one.
func TestV3(t *testing.T) {
	h, _ := serving(nil, "v1", "apps/v1")
	index := paths(t, h)
	for path, want := range map[string]bool{"api/v1": true, "apis/apps/v1": true, "apis/apps": true, "version": true,
		"apis/batch/v1": false} {
		_, ok := index[path]
		assert.Equalf(t, ok, want, "%s in the index", path)
	}
	url := index["apis/apps/v1"]
	w := get(h, url, "Accept", "application/json")
	if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" ||
		w.Header().Get("Cache-Control") != "public, immutable" || w.Header().Get("Expires") == "" {
		t.Errorf("%s: %d %v", url, w.Code, w.Header())
	}
	var doc spec3.OpenAPI
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil ||
		doc.Components.Schemas["io.k8s.api.apps.v1.Deployment"] == nil {
		t.Errorf("no Deployment: %v", err)
	}
	zipped := get(h, url, "Accept-Encoding", "gzip")
	if zipped.Header().Get("Content-Encoding") != "gzip" ||
		!bytes.Equal(unzip(t, zipped.Body.Bytes()), w.Body.Bytes()) {
		t.Error("the compressed document differs")
	}
	var pb openapiv3.Document
	asProto := get(h, url, "Accept", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf")
	if err := proto.Unmarshal(asProto.Body.Bytes(), &pb); err != nil ||
		len(pb.GetPaths().GetPath()) != len(doc.Paths.Paths) {
		t.Errorf("protobuf: %v", err)
	}
	got := get(h, url, "If-None-Match", w.Header().Get("Etag")).Code
	assert.Equalf(t, got, http.StatusNotModified, "If-None-Match")
	old := get(h, "/openapi/v3/apis/apps/v1?hash=old")
	if old.Code != http.StatusMovedPermanently || old.Header().Get("Location") != url {
		t.Errorf("old hash: %d %v", old.Code, old.Header())
	}
	if plain := get(h, "/openapi/v3/apis/apps/v1"); plain.Code != 200 || plain.Header().Get("Cache-Control") != "" {
		t.Errorf("without a hash: %d %v", plain.Code, plain.Header())
	}
	for path, code := range map[string]int{"/openapi/v3/apis/batch/v1": 404, "/openapi/v3/nope": 404, "/openapi": 404} {
		assert.Equalf(t, get(h, path).Code, code, "%s", path)
	}
	assert.Equalf(t, get(h, url, "Accept", "text/html").Code, http.StatusNotAcceptable, "Accept text/html")
}

// The joined document is valid in both encodings, which are equivalent.
func TestV2(t *testing.T) {
	for name, gvs := range map[string][]string{"little": {"v1"}, "more": {"v1", "apps/v1", "example.com/v1"}} {
		h, _ := serving(things{}, gvs...)
		w := get(h, "/openapi/v2")
		var doc spec.Swagger
		require.NoErrorf(t, json.Unmarshal(w.Body.Bytes(), &doc), "%s", name)
		var pb openapiv2.Document
		err := proto.Unmarshal(get(h, "/openapi/v2", "Accept",
			"application/com.github.proto-openapi.spec.v2@v1.0+protobuf").Body.Bytes(), &pb)
		require.NoErrorf(t, err, "%s", name)
		for what, names := range map[string][2][]string{
			"paths": {slices.Collect(maps.Keys(doc.Paths.Paths)), names(pb.GetPaths().GetPath())},
			"definitions": {slices.Collect(maps.Keys(doc.Definitions)),
				names(pb.GetDefinitions().GetAdditionalProperties())},
			"parameters": {slices.Collect(maps.Keys(doc.Parameters)),
				names(pb.GetParameters().GetAdditionalProperties())},
		} {
			slices.Sort(names[0])
			if slices.Sort(names[1]); !slices.Equal(names[0], names[1]) {
				t.Errorf("%s: %d %s as JSON, %d as protobuf", name, len(names[0]), what, len(names[1]))
			}
		}
		_, deployments := doc.Paths.Paths["/apis/apps/v1/deployments"]
		_, thing := doc.Definitions["com.example.v1.Thing"]
		_, parameter := doc.Parameters["thing-parameter"]
		if more := name == "more"; deployments != more || thing != more || parameter != more {
			t.Errorf("%s: deployments %v, thing %v, parameter %v", name, deployments, thing, parameter)
		}
		if got := doc.Definitions["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"].Description; got == "not this" ||
			got == "" {
			t.Errorf("%s: ObjectMeta is described as %q", name, got)
		}
		zipped := get(h, "/openapi/v2", "Accept-Encoding", "gzip")
		if !bytes.Equal(unzip(t, zipped.Body.Bytes()), w.Body.Bytes()) {
			t.Errorf("%s: the compressed document differs", name)
		}
	}
}

func TestCustomIsBuiltOncePerHash(t *testing.T) {
	custom := &counted{hash: "1"}
	h, registry := serving(custom, "example.com/v1")
	read := func() { get(h, paths(t, h)["apis/example.com/v1"]) }
	paths(t, h)
	assert.Equalf(t, custom.built, 0, "the index has built a document")
	read()
	read()
	registry.Put(&resource.Resource{Group: "other.com", Plural: "others", Versions: []resource.Version{{Name: "v1"}}})
	read()
	if custom.built != 1 {
		t.Errorf("built %d times, want 1", custom.built)
	}
	custom.hash = "2"
	registry.Put()
	read()
	if custom.built != 2 {
		t.Errorf("built %d times after a change, want 2", custom.built)
	}
}

func BenchmarkV3(b *testing.B) {
	h, _ := serving(nil, "apps/v1")
	for b.Loop() {
		get(h, "/openapi/v3/apis/apps/v1", "Accept-Encoding", "gzip")
	}
}

func BenchmarkV2AfterChange(b *testing.B) {
	h, registry := serving(things{}, "v1", "apps/v1", "example.com/v1")
	for b.Loop() {
		registry.Put()
		get(h, "/openapi/v2", "Accept", "application/com.github.proto-openapi.spec.v2.v1.0+protobuf")
	}
}
