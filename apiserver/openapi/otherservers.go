package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/openapiconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Others are the documents of group versions that other servers serve. It is immutable. A group
// version without documents hides this server's documents for it.
type Others map[schema.GroupVersion]Other

// Other has the documents of one group version. The zero value has none.
type Other struct {
	// V3Hash is the hash of the v3 document; "" means that there is none.
	V3Hash string
	// V3 serves the v3 document at its path. nil means that it is converted from V2.
	V3 http.Handler
	// V2 is the part of the v2 document about the group version; nil means none.
	V2 *Part
}

// Part is a part of a v2 document. It is immutable.
type Part struct {
	paths, definitions, parameters map[string]json.RawMessage // canonical
	v3                             func() (*v3Documents, error)
}

// v3Documents are the encodings of a v3 document that was converted from v2.
type v3Documents struct{ json, proto *document }

// parsing serialises ParseV2, which needs many times the memory of its input.
var parsing sync.Mutex

// ParseV2 returns the part of another server's v2 document (JSON) about one group version: its
// paths, and the definitions and parameters that they refer to. It returns an error for documents
// that clients could not parse.
func ParseV2(data []byte, gv schema.GroupVersion) (*Part, error) {
	parsing.Lock()
	defer parsing.Unlock()
	var doc struct{ Paths, Definitions, Parameters map[string]any }
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("parse OpenAPI document: %w", err)
	}
	prefix := "/" + pathOf(gv)
	maps.DeleteFunc(doc.Paths, func(path string, _ any) bool {
		return path != prefix && !strings.HasPrefix(path, prefix+"/")
	})
	p := &Part{}
	for _, section := range []struct {
		from map[string]any
		into *map[string]json.RawMessage
	}{{doc.Paths, &p.paths}, {doc.Definitions, &p.definitions}, {doc.Parameters, &p.parameters}} {
		*section.into = make(map[string]json.RawMessage, len(section.from))
		for name, value := range section.from {
			canonical, err := json.Marshal(value)
			if err != nil {
				return nil, fmt.Errorf("parse OpenAPI document: %w", err)
			}
			(*section.into)[name] = canonical
		}
	}
	p.dropUnused()
	document := p.document()
	if err := new(spec.Swagger).UnmarshalJSON(document); err != nil {
		return nil, fmt.Errorf("parse OpenAPI document: %w", err)
	}
	if _, err := openapiv2.ParseDocument(document); err != nil {
		return nil, fmt.Errorf("parse OpenAPI document: %w", err)
	}
	p.v3 = sync.OnceValues(p.convert)
	return p, nil
}

// pathOf returns the path of a group version, as in the v3 index.
func pathOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "api/" + gv.Version
	}
	return "apis/" + gv.String()
}

// reference matches references in canonical JSON.
var reference = regexp.MustCompile(`"\$ref":"#/(definitions|parameters)/([^"]*)"`)

// dropUnused removes the definitions and parameters that no path needs.
func (p *Part) dropUnused() {
	definitions, parameters := map[string]bool{}, map[string]bool{}
	var visit func(json.RawMessage)
	visit = func(raw json.RawMessage) {
		for _, match := range reference.FindAllSubmatch(raw, -1) {
			name, used, section := string(match[2]), definitions, p.definitions
			if string(match[1]) == "parameters" {
				used, section = parameters, p.parameters
			}
			if !used[name] {
				used[name] = true
				visit(section[name])
			}
		}
	}
	for _, path := range p.paths {
		visit(path)
	}
	maps.DeleteFunc(p.definitions, func(name string, _ json.RawMessage) bool { return !definitions[name] })
	maps.DeleteFunc(p.parameters, func(name string, _ json.RawMessage) bool { return !parameters[name] })
}

// document returns the part as a separate document. It has a title because parsers require one.
func (p *Part) document() []byte {
	out := []byte(`{"swagger":"2.0","info":{"title":"-","version":"-"},"paths":{`)
	out = append(append(out, members(p.paths)...), `},"definitions":{`...)
	out = append(append(out, members(p.definitions)...), `},"parameters":{`...)
	return append(append(out, members(p.parameters)...), `}}`...)
}

// members returns the members of a JSON object, sorted by name.
func members(object map[string]json.RawMessage) []byte {
	var out []byte
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if len(out) > 0 {
			out = append(out, ',')
		}
		quoted, _ := json.Marshal(name) // strings can always be encoded
		out = append(append(append(out, quoted...), ':'), object[name]...)
	}
	return out
}

// convert converts the part to v3, for servers without v3 documents.
func (p *Part) convert() (*v3Documents, error) {
	doc := new(spec.Swagger)
	if err := doc.UnmarshalJSON(p.document()); err != nil {
		return nil, err
	}
	data, err := json.Marshal(openapiconv.ConvertV2ToV3(doc))
	if err != nil {
		return nil, fmt.Errorf("convert OpenAPI document: %w", err)
	}
	pb, err := handler3.ToV3ProtoBinary(data)
	if err != nil {
		return nil, fmt.Errorf("convert OpenAPI document: %w", err)
	}
	out := &v3Documents{newDocument(data), newDocument(pb)}
	out.proto.etag = out.json.etag
	return out, nil
}

// V3Hash returns the hash of the v3 document that the part is converted to.
func (p *Part) V3Hash() (string, error) {
	docs, err := p.v3()
	if err != nil {
		return "", err
	}
	return docs.json.etag, nil
}

// names are the definitions or parameters of the v2 document so far.
type names map[string]json.RawMessage

// add adds the members of a JSON object.
func (n names) add(members []byte) error {
	return json.Unmarshal(slices.Concat([]byte("{"), members, []byte("}")), (*map[string]json.RawMessage)(&n))
}

// same reports whether two definitions differ only in the kinds that they list. A definition that
// many kinds share, such as DeleteOptions, lists those of its server.
func same(a, b json.RawMessage) bool {
	canonical := func(raw json.RawMessage) []byte {
		var value map[string]any
		if json.Unmarshal(raw, &value) != nil {
			return raw
		}
		delete(value, "x-kubernetes-group-version-kind")
		out, _ := json.Marshal(value) // was parsed from JSON
		return out
	}
	return bytes.Equal(canonical(a), canonical(b))
}

// fragment returns the members of the part that the document does not have yet, and adds them to
// the document's names. Names that mean something else there get a suffix, as in kube-aggregator.
func (p *Part) fragment(definitions, parameters names) *fragment {
	own := &Part{paths: maps.Clone(p.paths), definitions: maps.Clone(p.definitions),
		parameters: maps.Clone(p.parameters)}
	own.mergeSection("definitions", own.definitions, definitions)
	own.mergeSection("parameters", own.parameters, parameters)
	f := &fragment{paths: members(own.paths), definitions: members(own.definitions),
		parameters: members(own.parameters)}
	f.proto = sync.OnceValues(func() ([]byte, error) {
		parsed, err := openapiv2.ParseDocument(own.document())
		if err != nil {
			return nil, fmt.Errorf("encode document: %w", err)
		}
		parsed.Swagger, parsed.Info = "", nil
		return proto.Marshal(parsed)
	})
	return f
}

// mergeSection drops the members of a section that taken has with the same meaning, renames those
// with another one, and adds the rest to taken.
func (p *Part) mergeSection(section string, own map[string]json.RawMessage, taken names) {
	renamed := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		value := own[name]
		existing, exists := taken[name]
		if !exists {
			continue
		}
		delete(own, name)
		if same(existing, value) {
			continue
		}
		free := ""
		for i := 2; ; i++ {
			free = fmt.Sprintf("%s_v%d", name, i)
			other, exists := taken[free]
			if _, ours := own[free]; !ours && (!exists || same(other, value)) {
				if !exists {
					own[free] = value
				}
				break
			}
		}
		renamed[name] = free
	}
	if len(renamed) > 0 {
		replace := func(raw json.RawMessage) json.RawMessage {
			return reference.ReplaceAllFunc(raw, func(ref []byte) []byte {
				match := reference.FindSubmatch(ref)
				if free, ok := renamed[string(match[2])]; ok && string(match[1]) == section {
					return fmt.Appendf(nil, `"$ref":"#/%s/%s"`, section, free)
				}
				return ref
			})
		}
		for _, all := range []map[string]json.RawMessage{p.paths, p.definitions, p.parameters} {
			for name, raw := range all {
				all[name] = replace(raw)
			}
		}
	}
	maps.Copy(taken, own)
}

// otherFragments returns the fragments of other servers, sorted by group version.
func (d *documents) otherFragments(base *base, custom []*fragment) ([]*fragment, error) {
	var parts []*Part
	for _, path := range slices.Sorted(maps.Keys(d.others)) {
		if part := d.others[path].V2; part != nil {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return nil, nil
	}
	definitions, parameters := names{}, names{}
	for _, f := range append([]*fragment{{definitions: base.definitions, parameters: base.parameters}}, custom...) {
		if err := definitions.add(f.definitions); err != nil {
			return nil, fmt.Errorf("parse definitions: %w", err)
		}
		if err := parameters.add(f.parameters); err != nil {
			return nil, fmt.Errorf("parse parameters: %w", err)
		}
	}
	var out []*fragment
	for _, part := range parts {
		out = append(out, part.fragment(definitions, parameters))
	}
	return out, nil
}
