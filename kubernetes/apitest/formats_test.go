package apitest_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/apitest"
)

const (
	tables   = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	partials = "Accept: application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
)

// A list in every media type.
func TestMedia(t *testing.T) {
	p := apitest.New(t)
	for i := range 3 {
		p.Want(t, 201, "POST", maps, configMap(fmt.Sprint("m", i), ""))
	}
	read := func(path, accept, contentType string) []byte {
		t.Helper()
		resp := p.Do(t, "GET", path, "", "Accept: "+accept)
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 || resp.Header.Get("Content-Type") != contentType {
			t.Fatalf("%v %d %v\n%s", err, resp.StatusCode, resp.Header, body)
		}
		return body
	}
	// Lists of objects and of metadata, with and without items, are in the media type of their
	// header.
	for media, begin := range map[string]string{"application/json": "{",
		"application/vnd.kubernetes.protobuf": "k8s\x00", "application/cbor": "\xd9\xd9\xf7"} {
		for _, as := range []string{"", ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"} {
			for _, query := range []string{"", "?labelSelector=none"} {
				if body := read(maps+query, media+as, media); !strings.HasPrefix(string(body), begin) {
					t.Errorf("%s%s of %q: %q", media, as, query, body)
				}
			}
		}
	}
	var list corev1.ConfigMapList
	if err := yaml.UnmarshalStrict(read(maps, "application/yaml", "application/yaml"), &list); err != nil ||
		len(list.Items) != 3 {
		t.Errorf("yaml: %v %v", err, list)
	}
	const protobuf = "application/vnd.kubernetes.protobuf"
	obj, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), read(maps, protobuf, protobuf))
	if list, ok := obj.(*corev1.ConfigMapList); err != nil || !ok || len(list.Items) != 3 ||
		list.Items[2].Name != "m2" || list.ResourceVersion == "" {
		t.Errorf("protobuf: %v %v", err, obj)
	}
	obj, err = runtime.Decode(scheme.Codecs.UniversalDeserializer(), read(maps+"/m1", protobuf, protobuf))
	if one, ok := obj.(*corev1.ConfigMap); err != nil || !ok || one.Name != "m1" {
		t.Errorf("protobuf: %v %v", err, obj)
	}
	list = corev1.ConfigMapList{}
	if err := cbor.Unmarshal(read(maps, "application/cbor", "application/cbor"), &list); err != nil ||
		len(list.Items) != 3 || list.Kind != "ConfigMapList" {
		t.Errorf("cbor: %v %v", err, list)
	}
	if body := string(read(maps+"/m1?pretty=1", "application/json", "application/json")); !strings.HasPrefix(body,
		"{\n  \"kind\": \"ConfigMap\",\n") || !strings.HasSuffix(body, "\n}") {
		t.Errorf("pretty: %s", body)
	}
	if body := string(read(maps+"/m1", "text/html, */*;q=0.1", "application/json")); strings.Contains(body, "\n ") {
		t.Errorf("not pretty: %s", body)
	}
}

// Objects, lists and watches can be requested as metadata only. A request for the wrong one of
// object and list gets 406 or no events.
func TestPartialMetadata(t *testing.T) {
	p := apitest.New(t)
	p.Want(t, 201, "POST", maps, `{"metadata":{"name":"a"},"data":{"k":"v"}}`)
	got := p.Want(t, 200, "GET", maps+"/a", "", partials)
	if got["kind"] != "PartialObjectMetadata" || got["apiVersion"] != "meta.k8s.io/v1" || got["data"] != nil ||
		apitest.At(got, "metadata", "uid") == nil {
		t.Errorf("%v", got)
	}
	list := p.Want(t, 200, "GET", maps, "", "Accept: application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
	if list["kind"] != "PartialObjectMetadataList" || fmt.Sprint(names(list)) != "[a]" {
		t.Errorf("%v", list)
	}
	p.Want(t, 406, "GET", maps, "", "Accept: application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")
	s := p.Watch(t, maps+"?watch=1", partials)
	_, obj, _ := s.Next(t)
	assert.Equalf(t, obj["kind"], "PartialObjectMetadata", "%v", obj)
	// The objects of a watch are not lists: it ends without an event at the first one.
	for _, query := range []string{"", "&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&labelSelector=no"} {
		s = p.Watch(t, maps+"?watch=1"+query,
			"Accept: application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
		if typ, obj, ok := s.Next(t); ok {
			t.Errorf("%q: %s %v", query, typ, obj)
		}
	}
}

// Objects, lists and watches can be requested as tables. The parameter includeObject selects what
// each row includes, and only the first event of a watch has the columns.
func TestTables(t *testing.T) {
	p := apitest.New(t)
	const pods = "/api/v1/namespaces/default/pods"
	empty := p.Want(t, 200, "GET", pods, "", tables)
	if empty["kind"] != "Table" || len(empty["rows"].([]any)) != 0 || len(empty["columnDefinitions"].([]any)) < 5 {
		t.Errorf("%v", empty)
	}
	p.Want(t, 201, "POST", pods, fmt.Sprintf(pod, "a"))
	p.Want(t, 201, "POST", pods, fmt.Sprintf(pod, "b"))
	for include, kind := range map[string]any{"": "PartialObjectMetadata", "Metadata": "PartialObjectMetadata",
		"Object": "Pod", "None": nil} {
		table := p.Want(t, 200, "GET", pods+"?includeObject="+include, "", tables)
		rows := table["rows"].([]any)
		if len(rows) != 2 || fmt.Sprint(apitest.At(rows[1], "cells").([]any)[:3]) != "[b 0/1 Pending]" ||
			apitest.At(rows[1], "object", "kind") != kind {
			t.Errorf("%s: %v", include, rows)
		}
	}
	p.Want(t, 400, "GET", pods+"?includeObject=Some", "", tables)
	one := p.Want(t, 200, "GET", pods+"/a", "", tables)
	if len(one["rows"].([]any)) != 1 || apitest.At(one, "metadata", "resourceVersion") == nil {
		t.Errorf("%v", one)
	}

	// kubectl get -w
	s := p.Watch(t, pods+"?watch=1", tables)
	_, first, _ := s.Next(t)
	_, second, _ := s.Next(t)
	if len(first["columnDefinitions"].([]any)) < 5 ||
		second["columnDefinitions"] != nil && len(second["columnDefinitions"].([]any)) > 0 {
		t.Errorf("a later event repeats the columns: %v", second["columnDefinitions"])
	}
	p.Want(t, 200, "DELETE", pods+"/a", "")
	s.Next(t) // the object got a deletionTimestamp
	typ, gone, _ := s.Next(t)
	if typ != "DELETED" || gone["kind"] != "Table" {
		t.Errorf("%s %v", typ, gone)
	}
}

// Large responses are compressed if the client accepts gzip. Small ones are not.
func TestGzip(t *testing.T) {
	p := apitest.New(t)
	for i := range 3 {
		p.Want(t, 201, "POST", maps, fmt.Sprintf(`{"metadata":{"name":"m%d"},"data":{"x":%q}}`, i,
			strings.Repeat("x", 100_000)))
	}
	resp := p.Do(t, "GET", maps, "", "Accept-Encoding: gzip")
	require.Equalf(t, resp.Header.Get("Content-Encoding"), "gzip", "%v", resp.Header)
	body, err := gzip.NewReader(resp.Body)
	require.NoError(t, err)
	var list metav1.PartialObjectMetadataList
	if err := json.NewDecoder(body).Decode(&list); err != nil || len(list.Items) != 3 {
		t.Errorf("%v %v", err, list)
	}
	if resp := p.Do(t, "GET", maps+"/m0", "", "Accept-Encoding: gzip"); resp.Header.Get("Content-Encoding") != "" {
		t.Error("a small response was compressed")
	}
}

// Request bodies in media types other than JSON.
func TestBodies(t *testing.T) {
	p := apitest.New(t)
	p.Want(t, 201, "POST", maps, "metadata: {name: a}\ndata: {k: v}\n", "Content-Type: application/yaml")
	raw, err := runtime.Encode(runtime.NewCodec(protobufOf(t), scheme.Codecs.UniversalDeserializer()),
		&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{Name: "b"}})
	require.NoError(t, err)
	p.Want(t, 201, "POST", maps, string(raw), "Content-Type: application/vnd.kubernetes.protobuf")
	raw, err = cbor.Marshal(map[string]any{"kind": "ConfigMap", "apiVersion": "v1",
		"metadata": map[string]any{"name": "c"}})
	require.NoError(t, err)
	p.Want(t, 201, "POST", maps, string(raw), "Content-Type: application/cbor")
	raw, err = cbor.Marshal(map[string]any{"kind": "ConfigMap", "apiVersion": "v1",
		"metadata": map[string]any{"name": "d"}, "data": map[string]any{"k": "v"}})
	require.NoError(t, err)
	d := p.Want(t, 201, "PATCH", maps+"/d?fieldManager=m", string(raw), "Content-Type: application/apply-patch+cbor")
	assert.Equalf(t, apitest.At(d, "data", "k"), "v", "%v", d)
}

func protobufOf(t *testing.T) runtime.Encoder {
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(),
		"application/vnd.kubernetes.protobuf")
	if !ok {
		t.Fatal("no protobuf")
	}
	return info.Serializer
}
