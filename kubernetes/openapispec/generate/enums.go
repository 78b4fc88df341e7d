package main

import (
	"bytes"
	"encoding/json"
	"sync"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
	generated "k8s.io/kubernetes/pkg/generated/openapi"

	"kelson.dev/kubernetes/linked"
)

// completed adds the parts of a document that a server adds: the version, and the values of enum
// fields. where is the path of the schemas in the document.
func completed(data []byte, where ...string) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var doc map[string]any
	if err := d.Decode(&doc); err != nil {
		return nil, err
	}
	if info, ok := doc["info"].(map[string]any); ok {
		info["version"] = linked.Minor()
	}
	schemas := doc
	for _, name := range where {
		schemas, _ = schemas[name].(map[string]any)
	}
	for name, schema := range schemas {
		if definition, ok := definitions()[name]; ok {
			enumerate(schema.(map[string]any), &definition)
		}
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(doc); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

// definitions are the schemas of Kubernetes' Go types, which have the enum values, by their names
// in the documents.
var definitions = sync.OnceValue(func() map[string]spec.Schema {
	out := map[string]spec.Schema{}
	reference := func(name string) spec.Ref { return spec.MustCreateRef("#/definitions/" + name) }
	for name, definition := range generated.GetOpenAPIDefinitions(common.ReferenceCallback(reference)) {
		out[util.ToRESTFriendlyName(name)] = definition.Schema
		out[name] = definition.Schema
	}
	return out
})

// enumerate copies enum values, and the descriptions that list them.
func enumerate(schema map[string]any, from *spec.Schema) {
	if len(from.Enum) > 0 {
		schema["enum"] = from.Enum
		if from.Description != "" {
			schema["description"] = from.Description
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, property := range properties {
		if known, ok := from.Properties[name]; ok {
			enumerate(property.(map[string]any), &known)
		}
	}
	if items, ok := schema["items"].(map[string]any); ok && from.Items != nil && from.Items.Schema != nil {
		enumerate(items, from.Items.Schema)
	}
	if values, ok := schema["additionalProperties"].(map[string]any); ok && from.AdditionalProperties != nil &&
		from.AdditionalProperties.Schema != nil {
		enumerate(values, from.AdditionalProperties.Schema)
	}
}
