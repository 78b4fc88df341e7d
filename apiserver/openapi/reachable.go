package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/encoding/protowire"
)

// The packed definitions are those of all versions that can be served. A document has only those
// that its paths, or definitions of other kinds, refer to.

// patchDefinition is the name of the definition of patches, to which no path refers. Kubernetes'
// document has it too.
const patchDefinition = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"

// refPrefix is the beginning of references to definitions in JSON.
var refPrefix = []byte(`"#/definitions/`)

// referred calls yield with the names of the definitions that JSON refers to.
func referred(data []byte, yield func(name string)) {
	for {
		at := bytes.Index(data, refPrefix)
		if at < 0 {
			return
		}
		data = data[at+len(refPrefix):]
		end := bytes.IndexByte(data, '"')
		if end < 0 {
			return
		}
		yield(string(data[:end]))
	}
}

// reachable returns the members of an object of definitions that other parts of the document refer
// to, directly or through other definitions, and the names of these members. The members are
// returned without the braces of the object.
func reachable(definitions []byte, parts [][]byte) (kept []byte, names map[string]bool, err error) {
	type member struct {
		name string
		data []byte
	}
	var all []member
	byName := map[string][]byte{}
	object := append(append([]byte{'{'}, definitions...), '}')
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return nil, nil, fmt.Errorf("packed definitions: %w", err)
	}
	for d.More() {
		token, err := d.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return nil, nil, fmt.Errorf("packed definitions: %v: %w", token, err)
		}
		begin := int(d.InputOffset()) + 1 // after the colon
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, nil, fmt.Errorf("packed definition of %s: %w", name, err)
		}
		data := object[begin:d.InputOffset()]
		all, byName[name] = append(all, member{name, data}), data
	}
	names = map[string]bool{}
	var next [][]byte
	visit := func(name string) {
		if data, ok := byName[name]; ok && !names[name] {
			names[name] = true
			next = append(next, data)
		}
	}
	visit(patchDefinition)
	for _, part := range parts {
		referred(part, visit)
	}
	for len(next) > 0 {
		last := next[len(next)-1]
		next = next[:len(next)-1]
		referred(last, visit)
	}
	for _, m := range all {
		if !names[m.name] {
			continue
		}
		if len(kept) > 0 {
			kept = append(kept, ',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, nil, err
		}
		kept = append(append(append(kept, name...), ':'), m.data...)
	}
	return kept, names, nil
}

// definitionsField is the number of the field of a Document that holds the definitions.
var definitionsField = (&openapiv2.Document{}).ProtoReflect().Descriptor().Fields().ByName("definitions").Number()

// onlyDefinitions returns an encoded Document without the definitions that have other names.
func onlyDefinitions(document []byte, names map[string]bool) ([]byte, error) {
	return rewritten(document, func(field protowire.Number, definitions []byte) ([]byte, bool, error) {
		if field != definitionsField {
			return definitions, true, nil
		}
		kept, err := rewritten(definitions, func(_ protowire.Number, entry []byte) ([]byte, bool, error) {
			name, err := entryName(entry)
			return entry, names[name], err
		})
		return kept, true, err
	})
}

// entryName returns the first field of an encoded message, which must be a string: the name of an
// entry.
func entryName(entry []byte) (string, error) {
	_, kind, n := protowire.ConsumeTag(entry)
	if n < 0 || kind != protowire.BytesType {
		return "", errMalformed
	}
	name, n := protowire.ConsumeBytes(entry[n:])
	if n < 0 {
		return "", errMalformed
	}
	return string(name), nil
}

var errMalformed = fmt.Errorf("packed documents: malformed protobuf")

// rewritten copies an encoded message. Each field of bytes gets the content that edit returns, or
// is omitted.
func rewritten(message []byte, edit func(field protowire.Number, content []byte) (next []byte, keep bool, err error)) (
	[]byte, error) {
	var out []byte
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, errMalformed
		}
		size := protowire.ConsumeFieldValue(field, kind, message[n:])
		if size < 0 {
			return nil, errMalformed
		}
		value := message[n : n+size]
		if kind != protowire.BytesType {
			out = append(out, message[:n+size]...)
		} else {
			content, _ := protowire.ConsumeBytes(value)
			next, keep, err := edit(field, content)
			if err != nil {
				return nil, err
			}
			if keep {
				out = protowire.AppendBytes(protowire.AppendTag(out, field, kind), next)
			}
		}
		message = message[n+size:]
	}
	return out, nil
}
