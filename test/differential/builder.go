package main

import (
	"math/rand/v2"
	"net/http"
	"strings"
)

// builder gathers the steps of a stream on one kind.
type builder struct {
	*kind
	own   string
	rnd   *rand.Rand
	steps []step
}

// option completes a step.
type option func(*step)

func (b *builder) add(label, method, path string, opts ...option) {
	s := step{label: label, method: method, path: path}
	for _, opt := range opts {
		opt(&s)
	}
	b.steps = append(b.steps, s)
}

// body gives a step a JSON body.
func body(v any) option { return func(s *step) { s.body = jsonBody(v) } }

// bytesBody gives a step a body of a content type.
func bytesBody(contentType, text string) option {
	return func(s *step) { s.body = raw(text); headerOf(s, "Content-Type", contentType) }
}

// change gives a step the saved object after a change as its body.
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

// save remembers the answer's object.
func save(name string) option { return func(s *step) { s.save = name } }

// events says that the answer is a watch.
func events(s *step) { s.watch = true }

// coll is the path of the stream's collection, with a query.
func (b *builder) coll(query ...string) string { return withQuery(b.collection(b.own), query) }

// listing is the path of a list of the stream's objects alone: what lives outside of namespaces is told apart by its label.
func (b *builder) listing(query ...string) string {
	if !b.namespaced {
		query = append([]string{"labelSelector=stream%3D" + b.own}, query...)
	}
	return b.coll(query...)
}

// named is the path of an object of the stream.
func (b *builder) named(name string, query ...string) string {
	return withQuery(b.collection(b.own)+"/"+b.fullName(name), query)
}

func (b *builder) sub(name, subresource string, query ...string) string {
	return withQuery(b.named(name)+"/"+subresource, query)
}

// fullName is a name that no other stream uses.
func (b *builder) fullName(name string) string {
	if b.namespaced {
		return name
	}
	return b.own + "-" + name
}

// obj is the sample under a name.
func (b *builder) obj(name string) map[string]any {
	return b.object(b.own, b.fullName(name))
}

func withQuery(path string, query []string) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + strings.Join(query, "&")
}

// create adds the creation of an object that the following steps lean on.
func (b *builder) create(name string, edit ...func(map[string]any)) {
	obj := b.obj(name)
	for _, e := range edit {
		e(obj)
	}
	b.add("create", http.MethodPost, b.coll(), body(obj), save(name))
}

// Media of patches.
const (
	jsonPatch      = "application/json-patch+json"
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	applyYAML      = "application/apply-patch+yaml"
	applyCBOR      = "application/apply-patch+cbor"
)

// Media of answers.
const (
	mediaProtobuf = "application/vnd.kubernetes.protobuf"
	mediaCBOR     = "application/cbor"
	mediaYAML     = "application/yaml"
	asTable       = "application/json;as=Table;v=v1;g=meta.k8s.io"
	asPartial     = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	asPartialList = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
)
