package crd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"unicode"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// emitter encodes definitions as YAML with the same bytes as sigs.k8s.io/yaml, but without going
// through JSON, because schemas are most of the generated output. It uses that package to quote
// text, once per text.
type emitter struct {
	b        bytes.Buffer
	rendered map[string]string // by value and position
	keys     map[string]string
	err      error
	// The text begins with an empty line. Its encoding depends on the context.
	odd bool
}

func newEmitter() *emitter { return &emitter{rendered: map[string]string{}, keys: map[string]string{}} }

// pair is a member of a mapping.
type pair struct {
	key   string
	value any // string, bool, int64, jsonValue, []pair, []any, *props
}

// jsonValue is a value as JSON.
type jsonValue []byte

// mapping writes members, which are sorted already.
func (e *emitter) mapping(pairs []pair, indent string) {
	for i, p := range pairs {
		if i > 0 {
			e.b.WriteString(indent)
		}
		key := e.key(p.key)
		e.b.WriteString(key)
		e.b.WriteByte(':')
		e.value(p.value, key, indent)
	}
}

// value writes a value after a key and its colon.
func (e *emitter) value(v any, key, indent string) {
	switch v := v.(type) {
	case string:
		if out, ok := simple(v, len(indent)+len(key)+2, indent); ok {
			e.b.WriteString(" " + out)
			return
		}
		e.render(v, key, indent)
	case bool:
		e.b.WriteString(" " + strconv.FormatBool(v) + "\n")
	case int64:
		e.b.WriteString(" " + strconv.FormatInt(v, 10) + "\n")
	case jsonValue:
		e.render(json.RawMessage(v), key, indent)
	case []pair:
		if len(v) == 0 {
			e.b.WriteString(" {}\n")
			return
		}
		e.b.WriteString("\n" + indent + "  ")
		e.mapping(v, indent+"  ")
	case *props:
		e.value(schemaPairs(v), key, indent)
	case []any:
		if len(v) == 0 {
			e.b.WriteString(" []\n")
			return
		}
		e.b.WriteByte('\n')
		for _, item := range v {
			e.b.WriteString(indent + "- ")
			e.item(item, indent)
		}
	}
}

// item writes a value after a dash.
func (e *emitter) item(v any, indent string) {
	switch v := v.(type) {
	case string:
		if out, ok := simple(v, len(indent)+2, indent); ok {
			e.b.WriteString(out)
			return
		}
		e.render(v, "", indent)
	case []pair:
		if len(v) == 0 {
			e.b.WriteString("{}\n")
			return
		}
		e.mapping(v, indent+"  ")
	case *props:
		e.item(schemaPairs(v), indent)
	case jsonValue:
		e.render(json.RawMessage(v), "", indent)
	}
}

// render encodes a value with sigs.k8s.io/yaml, at its indentation because long text is folded:
// after a key or, if key is empty, after a dash.
func (e *emitter) render(v any, key, indent string) {
	depth := len(indent) / 2
	at := fmt.Sprint(depth, key == "", len(key), v)
	out, ok := e.rendered[at]
	if !ok {
		var prefix strings.Builder
		for i := range depth {
			prefix.WriteString(strings.Repeat("  ", i) + "k:\n")
		}
		if key == "" {
			v = map[string]any{"k": []any{v}}
			prefix.WriteString(indent + "k:\n" + indent + "- ")
		} else {
			name := strings.Repeat("k", len(key))
			v = map[string]any{name: v}
			prefix.WriteString(indent + name + ":")
		}
		for range depth {
			v = map[string]any{"k": v}
		}
		doc, err := yaml.Marshal(v)
		if err != nil {
			e.err = err
		}
		out = strings.TrimPrefix(string(doc), prefix.String())
		e.rendered[at] = out
	}
	e.odd = e.odd || strings.Contains(out, "|2")
	e.b.WriteString(out)
}

func (e *emitter) key(s string) string {
	out, ok := e.keys[s]
	if !ok {
		if out, ok = simple(s, 0, ""); ok && !strings.Contains(out[:len(out)-1], "\n") {
			out = out[:len(out)-1]
		} else {
			doc, err := yaml.Marshal(map[string]int{s: 0})
			if err != nil {
				e.err = err
			}
			out = strings.TrimSuffix(string(doc), ": 0\n")
		}
		e.keys[s] = out
	}
	return out
}

// schemaPairs returns the members of a schema, sorted by name.
func schemaPairs(s *props) []pair {
	p := make([]pair, 0, 8)
	add := func(key string, v any) { p = append(p, pair{key, v}) }
	number := func(key string, v *float64) {
		if v != nil {
			data, _ := json.Marshal(*v)
			add(key, jsonValue(data))
		}
	}
	count := func(key string, v *int64) {
		if v != nil {
			add(key, *v)
		}
	}
	flag := func(key string, v bool) {
		if v {
			add(key, true)
		}
	}
	text := func(key, v string) {
		if v != "" {
			add(key, v)
		}
	}
	list := func(key string, v []props) {
		if len(v) > 0 {
			items := make([]any, len(v))
			for i := range v {
				items[i] = &v[i]
			}
			add(key, items)
		}
	}
	if s.AdditionalProperties != nil {
		if s.AdditionalProperties.Schema != nil {
			add("additionalProperties", s.AdditionalProperties.Schema)
		} else {
			add("additionalProperties", s.AdditionalProperties.Allows)
		}
	}
	list("allOf", s.AllOf)
	list("anyOf", s.AnyOf)
	if s.Default != nil {
		add("default", jsonValue(s.Default.Raw))
	}
	text("description", s.Description)
	if len(s.Enum) > 0 {
		items := make([]any, len(s.Enum))
		for i, v := range s.Enum {
			items[i] = jsonValue(v.Raw)
		}
		add("enum", items)
	}
	if s.Example != nil {
		add("example", jsonValue(s.Example.Raw))
	}
	flag("exclusiveMaximum", s.ExclusiveMaximum)
	flag("exclusiveMinimum", s.ExclusiveMinimum)
	if s.ExternalDocs != nil {
		data, _ := json.Marshal(s.ExternalDocs)
		add("externalDocs", jsonValue(data))
	}
	text("format", s.Format)
	if s.Items != nil && s.Items.Schema != nil {
		add("items", s.Items.Schema)
	}
	count("maxItems", s.MaxItems)
	count("maxLength", s.MaxLength)
	count("maxProperties", s.MaxProperties)
	number("maximum", s.Maximum)
	count("minItems", s.MinItems)
	count("minLength", s.MinLength)
	count("minProperties", s.MinProperties)
	number("minimum", s.Minimum)
	number("multipleOf", s.MultipleOf)
	if s.Not != nil {
		add("not", s.Not)
	}
	flag("nullable", s.Nullable)
	list("oneOf", s.OneOf)
	text("pattern", s.Pattern)
	if len(s.Properties) > 0 {
		members := make([]pair, 0, len(s.Properties))
		for name, v := range s.Properties {
			members = append(members, pair{name, &v})
		}
		sort.Slice(members, func(i, j int) bool { return keyLess(members[i].key, members[j].key) })
		add("properties", members)
	}
	texts := func(key string, v []string) {
		if len(v) > 0 {
			items := make([]any, len(v))
			for i, s := range v {
				items[i] = s
			}
			add(key, items)
		}
	}
	texts("required", s.Required)
	text("title", s.Title)
	text("type", s.Type)
	flag("uniqueItems", s.UniqueItems)
	flag("x-kubernetes-embedded-resource", s.XEmbeddedResource)
	flag("x-kubernetes-int-or-string", s.XIntOrString)
	texts("x-kubernetes-list-map-keys", s.XListMapKeys)
	if s.XListType != nil {
		add("x-kubernetes-list-type", *s.XListType)
	}
	if s.XMapType != nil {
		add("x-kubernetes-map-type", *s.XMapType)
	}
	if s.XPreserveUnknownFields != nil {
		add("x-kubernetes-preserve-unknown-fields", *s.XPreserveUnknownFields)
	}
	if len(s.XValidations) > 0 {
		data, _ := json.Marshal(s.XValidations)
		add("x-kubernetes-validations", jsonValue(data))
	}
	return p
}

// keyLess orders keys as sigs.k8s.io/yaml does: numbers in names are compared as numbers, and other
// characters sort before letters.
func keyLess(a, b string) bool {
	ar, br := []rune(a), []rune(b)
	digits := false
	for i := 0; i < len(ar) && i < len(br); i++ {
		if ar[i] == br[i] {
			digits = unicode.IsDigit(ar[i])
			continue
		}
		al, bl := unicode.IsLetter(ar[i]), unicode.IsLetter(br[i])
		if al && bl {
			return ar[i] < br[i]
		}
		if al || bl {
			if digits {
				return al
			}
			return bl
		}
		var ai, bi int
		var an, bn int64
		if ar[i] == '0' || br[i] == '0' {
			for j := i - 1; j >= 0 && unicode.IsDigit(ar[j]); j-- {
				if ar[j] != '0' {
					an, bn = 1, 1
					break
				}
			}
		}
		for ai = i; ai < len(ar) && unicode.IsDigit(ar[ai]); ai++ {
			an = an*10 + int64(ar[ai]-'0')
		}
		for bi = i; bi < len(br) && unicode.IsDigit(br[bi]); bi++ {
			bn = bn*10 + int64(br[bi]-'0')
		}
		if an != bn {
			return an < bn
		}
		if ai != bi {
			return ai < bi
		}
		return ar[i] < br[i]
	}
	return len(ar) < len(br)
}

// definition writes a whole definition, without the status that only servers write.
func (e *emitter) definition(crd *apiextensionsv1.CustomResourceDefinition) ([]byte, error) {
	e.b.Reset()
	e.b.WriteString("---\n")
	var versions []any
	for i := range crd.Spec.Versions {
		v := crd.Spec.Versions[i]
		schema := v.Schema
		v.Schema = nil
		data, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		members := rawPairs(data)
		members = append(members, pair{"schema", []pair{{"openAPIV3Schema", schema.OpenAPIV3Schema}}})
		sort.Slice(members, func(i, j int) bool { return keyLess(members[i].key, members[j].key) })
		versions = append(versions, members)
	}
	spec := crd.Spec
	spec.Versions = nil
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	members := rawPairs(data)
	for i := range members {
		if members[i].key == "versions" {
			members[i].value = versions
		}
	}
	meta := []pair{}
	for _, m := range []struct {
		key     string
		entries map[string]string
	}{{"annotations", crd.Annotations}, {"labels", crd.Labels}} {
		if len(m.entries) > 0 {
			data, _ := json.Marshal(m.entries)
			meta = append(meta, pair{m.key, jsonValue(data)})
		}
	}
	meta = append(meta, pair{"name", crd.Name})
	e.mapping([]pair{{"apiVersion", crd.APIVersion}, {"kind", crd.Kind}, {"metadata", meta}, {"spec", members}}, "")
	if e.odd {
		e.odd = false
		return marshal(crd)
	}
	return bytes.Clone(e.b.Bytes()), e.err
}

// rawPairs returns the members of a JSON object, sorted by name.
func rawPairs(data []byte) []pair {
	var object map[string]json.RawMessage
	_ = json.Unmarshal(data, &object) // cannot fail: this package has encoded the value
	var p []pair
	for k, v := range object {
		p = append(p, pair{k, jsonValue(v)})
	}
	sort.Slice(p, func(i, j int) bool { return keyLess(p[i].key, p[j].key) })
	return p
}
