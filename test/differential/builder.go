package main

import (
	"math/rand/v2"
	"net/http"
	"strings"
)

// builder collects the steps of a stream for one kind.
type builder struct {
	*kind
	own   string
	rnd   *rand.Rand
	steps []step
}

// option sets fields of a step.
type option func(*step)

func (b *builder) add(label, method, path string, opts ...option) {
	s := step{label: label, method: method, path: path}
	for _, opt := range opts {
		opt(&s)
	}
	b.steps = append(b.steps, s)
}

// body sets the JSON body of a step.
func body(v any) option { return func(s *step) { s.body = jsonBody(v) } }

// bytesBody sets the body of a step, with a content type.
func bytesBody(contentType, text string) option {
	return func(s *step) { s.body = raw(text); headerOf(s, "Content-Type", contentType) }
}

// change sets the body to the saved object after a change.
func change(name string, edit func(map[string]any)) option {
	return func(s *step) { s.body = edited(name, edit) }
}

func accept(media string) option { return header("Accept", media) }

func header(key, value string) option { return func(s *step) { headerOf(s, key, value) } }

func headerOf(s *step, key, value string) {
	if s.header == nil {
		s.header = map[string]string{}
	}
	s.header[key] = value
}

// save saves the object in the response.
func save(name string) option { return func(s *step) { s.save = name } }

// events marks the response as a watch.
func events(s *step) { s.watch = true }

// coll returns the path of the stream's collection, with a query.
func (b *builder) coll(query ...string) string { return withQuery(b.collection(b.own), query) }

// listing returns the path of a list of only the stream's objects: a label identifies
// cluster-scoped ones.
func (b *builder) listing(query ...string) string {
	if !b.namespaced {
		query = append([]string{"labelSelector=stream%3D" + b.own}, query...)
	}
	return b.coll(query...)
}

// named returns the path of an object of the stream.
func (b *builder) named(name string, query ...string) string {
	return withQuery(b.collection(b.own)+"/"+b.fullName(name), query)
}

func (b *builder) sub(name, subresource string, query ...string) string {
	return withQuery(b.named(name)+"/"+subresource, query)
}

// fullName returns a name that no other stream uses.
func (b *builder) fullName(name string) string {
	if b.namespaced {
		return name
	}
	return b.own + "-" + name
}

// obj returns the sample with a name.
func (b *builder) obj(name string) map[string]any {
	return b.object(b.own, b.fullName(name))
}

func withQuery(path string, query []string) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + strings.Join(query, "&")
}

// create adds the creation of an object that later steps need.
func (b *builder) create(name string, edit ...func(map[string]any)) {
	obj := b.obj(name)
	for _, e := range edit {
		e(obj)
	}
	b.add("create", http.MethodPost, b.coll(), body(obj), save(name))
}

// Media types of patches.
const (
	jsonPatch      = "application/json-patch+json"
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	applyYAML      = "application/apply-patch+yaml"
	applyCBOR      = "application/apply-patch+cbor"
)

// Media types of responses.
const (
	mediaProtobuf = "application/vnd.kubernetes.protobuf"
	mediaCBOR     = "application/cbor"
	mediaYAML     = "application/yaml"
	asTable       = "application/json;as=Table;v=v1;g=meta.k8s.io"
	asPartial     = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	asPartialList = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
)
