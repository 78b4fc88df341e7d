package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"kelson.dev/test/admission/attributes"
)

// stream is an independent list of requests: it has its own namespace and unique object names. Any
// part of it can be repeated under another name; shrink uses this to reduce a difference to the
// requests that cause it.
type stream struct {
	name string
	// steps returns the requests for a name. The same seed returns the same requests.
	steps func(own string) []step
	// collection and reacted make each write wait until the servers have reacted to it, because
	// they react asynchronously: until reacted reports true for the written object of this
	// collection. nil: servers do not react.
	collection string
	reacted    func(obj any) bool
	// alone means that the stream changes the responses to other streams: it runs after the streams
	// of all seeds have ended.
	alone bool
	// reviewed compares what the recorders of both sides receive for each step, too.
	reviewed bool
}

// step is one request.
type step struct {
	label  string // what the step tests; differences are grouped by it
	method string
	path   string // with the query; may have placeholders, see memory.fill
	header map[string]string
	body   func(*memory) []byte // nil: no body
	save   string               // saves the object in the response under this name
	watch  bool                 // the response is a stream of events
	always bool                 // other steps need it: it is never omitted
	// Conditions to wait for, for some seconds, because the peer fulfils them asynchronously.
	established bool // until the definition in the response has its conditions
	gone        bool // until the response is 404
	soon        bool // until both responses are equal
	hooked      bool // until the recorder of the side was called by all webhooks
	// Only the reviews of the request are compared; its response depends on the network.
	unanswered bool
}

// memory has the data of one side's responses in a stream.
type memory struct {
	objects map[string]map[string]any
	tokens  map[string]string // continue tokens
	tags    map[string]string // entity tags
	hook    *attributes.Recorder
}

func newMemory() *memory {
	return &memory{objects: map[string]map[string]any{}, tokens: map[string]string{}, tags: map[string]string{}}
}

var placeholder = regexp.MustCompile(`\{(uid|rv|continue|olduid|etag):([a-z0-9-]+)\}`)

// fill replaces placeholders: {uid:a} and {rv:a} of the object saved as a, {continue:a} of a list
// saved as a, {etag:a} of a response saved as a.
func (m *memory) fill(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		parts := placeholder.FindStringSubmatch(found)
		switch parts[1] {
		case "uid":
			return m.metadata(parts[2], "uid", "00000000-0000-4000-8000-000000000000")
		case "rv":
			return m.metadata(parts[2], "resourceVersion", "1")
		case "etag":
			return m.tags[parts[2]]
		case "continue":
			return m.tokens[parts[2]]
		}
		return found
	})
}

func (m *memory) metadata(name, key, otherwise string) string {
	meta, _ := m.objects[name]["metadata"].(map[string]any)
	if value, ok := meta[key].(string); ok && value != "" {
		return value
	}
	return otherwise
}

// keep saves the object of a response.
func (m *memory) keep(name string, body any) {
	obj, ok := body.(map[string]any)
	if !ok || obj["kind"] == "Status" {
		return
	}
	m.objects[name] = obj
	meta, _ := obj["metadata"].(map[string]any)
	token, _ := meta["continue"].(string)
	m.tokens[name] = token
}

// object returns a copy of a saved object.
func (m *memory) object(name string) map[string]any {
	return clone(m.objects[name])
}

// clone copies a JSON value.
func clone[T any](v T) T { return cloneAny(any(v)).(T) }

func cloneAny(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for key, value := range v {
			c[key] = cloneAny(value)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, value := range v {
			c[i] = cloneAny(value)
		}
		return c
	}
	return v
}

// raw returns a body that is sent unchanged except for placeholders.
func raw(text string) func(*memory) []byte {
	return func(m *memory) []byte { return []byte(m.fill(text)) }
}

// jsonBody returns the JSON of a value, with placeholders in its strings.
func jsonBody(v any) func(*memory) []byte {
	return raw(mustJSON(v))
}

func mustJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode body: %v", err)) // encoding a value of a stream does not fail
	}
	return string(data)
}

// edited returns the saved object after a change, or of an empty object if it was not saved.
func edited(name string, edit func(map[string]any)) func(*memory) []byte {
	return func(m *memory) []byte {
		obj := m.object(name)
		if obj == nil {
			obj = map[string]any{}
		}
		if edit != nil {
			edit(obj)
		}
		return []byte(m.fill(mustJSON(obj)))
	}
}

// set sets a nested field of an object and creates missing parents. nil removes the field.
func set(obj map[string]any, value any, path ...string) {
	for _, key := range path[:len(path)-1] {
		next, ok := obj[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			obj[key] = next
		}
		obj = next
	}
	if last := path[len(path)-1]; value == nil {
		delete(obj, last)
	} else {
		obj[last] = value
	}
}

// with returns a copy of an object with one field changed.
func with(obj map[string]any, value any, path ...string) map[string]any {
	c := clone(obj)
	set(c, value, path...)
	return c
}

// String returns the request as it is sent to the side with this memory.
func (s *step) String(m *memory) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", s.method, m.fill(s.path))
	for _, key := range slices.Sorted(maps.Keys(s.header)) {
		fmt.Fprintf(&b, "\n  %s: %s", key, m.fill(s.header[key]))
	}
	if s.body != nil {
		body := s.body(m)
		if len(body) > 4000 {
			body = append(body[:4000:4000], "…"...)
		}
		fmt.Fprintf(&b, "\n  %q", body)
	}
	return b.String()
}
