package main

import (
	"fmt"
	"net/http"
	"strings"
)

// brokenDefinitions changes one thing in a valid definition, mostly to an invalid value.
func brokenDefinitions(own string, _ uint64) []step {
	b := &builder{own: own}
	d := sampleDefinition{Definition: fieldMap{"scope": "Namespaced",
		"names": fieldMap{"plural": "toys", "singular": "toy", "kind": "Toy", "listKind": "ToyList"},
		"versions": []any{fieldMap{"name": "v1", "served": true, "storage": true,
			"schema": fieldMap{"openAPIV3Schema": fieldMap{"type": "object",
				"properties": fieldMap{"spec": fieldMap{"type": "object"}}}}}}}}
	try := func(label string, edit func(spec, version fieldMap)) {
		obj := d.object(own)
		spec := obj["spec"].(fieldMap)
		edit(spec, spec["versions"].([]any)[0].(fieldMap))
		b.add("define "+label, http.MethodPost, definitionsPath+"?dryRun=All", body(obj))
	}
	try("fine", func(_, _ fieldMap) {})
	for label, value := range inOrder(fieldMap{"dropped": nil, "text": "Bad_Text", "number": 5, "list": []any{},
		"empty": ""}) {
		for _, path := range []string{"group", "scope", "names", "versions", "conversion", "preserveUnknownFields",
			"names.plural", "names.singular", "names.kind", "names.listKind", "names.shortNames", "names.categories"} {
			try(path+" "+label, func(spec, _ fieldMap) { set(spec, value, strings.Split(path, ".")...) })
		}
		for _, path := range []string{"name", "served", "storage", "schema", "subresources", "additionalPrinterColumns",
			"selectableFields", "deprecated", "deprecationWarning", "schema.openAPIV3Schema",
			"schema.openAPIV3Schema.type", "schema.openAPIV3Schema.properties"} {
			try("version "+path+" "+label, func(_, version fieldMap) {
				set(version, value, strings.Split(path, ".")...)
			})
		}
	}
	for _, schema := range []string{
		`{"type":"object","properties":{"a":{}}}`, `{"type":"object","properties":{"a":{"type":"nothing"}}}`,
		`{"type":"string"}`, `{"type":"object","properties":{"a":{"type":"array"}}}`,
		`{"type":"object","properties":{"a":{"type":"array","items":[{"type":"string"}]}}}`,
		`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"string"}},"additionalProperties":{"type":"string"}}}}`,
		`{"type":"object","additionalProperties":false}`,
		`{"type":"object","properties":{"a":{"type":"string","default":5}}}`,
		`{"type":"object","properties":{"a":{"type":"object","default":{"b":1}}}}`,
		`{"type":"object","properties":{"a":{"type":"string","nullable":true,"default":null}}}`,
		`{"type":"object","properties":{"a":{"type":"string","pattern":"("}}}`,
		`{"type":"object","properties":{"a":{"type":"string","format":"nothing"}}}`,
		`{"type":"object","properties":{"a":{"$ref":"#/definitions/x"}}}`,
		`{"type":"object","definitions":{"x":{"type":"string"}}}`,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"},"uniqueItems":true}}}`,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"map"}}}`, `{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"k":{"type":"string"}}},"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"]}}}`,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"},"x-kubernetes-list-type":"set"}}}`, `{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"heap"}}}`,
		`{"type":"object","properties":{"a":{"type":"string","x-kubernetes-list-type":"set"}}}`,
		`{"type":"object","properties":{"a":{"type":"object","x-kubernetes-map-type":"other"}}}`,
		`{"type":"object","properties":{"a":{"type":"string","x-kubernetes-int-or-string":true}}}`,
		`{"type":"object","properties":{"a":{"x-kubernetes-embedded-resource":true}}}`,
		`{"type":"object","properties":{"a":{"type":"object","x-kubernetes-embedded-resource":true}}}`,
		`{"type":"object","x-kubernetes-preserve-unknown-fields":false}`,
		`{"type":"object","properties":{"metadata":{"type":"string"}}}`,
		`{"type":"object","properties":{"metadata":{"type":"object","properties":{"name":{"type":"string","pattern":"^a"}}}}}`, `{"type":"object","properties":{"metadata":{"type":"object","properties":{"labels":{"type":"object"}}}}}`,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"integer"}]}}}`,
		`{"type":"object","properties":{"a":{"type":"string","anyOf":[{"type":"string"}]}}}`,
		`{"type":"object","properties":{"a":{"type":"object","oneOf":[{"properties":{"z":{"minimum":1}}}]}}}`,
		`{"type":"object","properties":{"a":{"type":"string","minLength":5,"maxLength":1}}}`,
		`{"type":"object","properties":{"a":{"type":"string","enum":[]}}}`,
		`{"type":"object","properties":{"a":{"type":"string","enum":["a","a"]}}}`,
		`{"type":"object","properties":{"a":{"type":"integer","multipleOf":0}}}`,
		`{"type":"object","x-kubernetes-validations":[{"rule":""}]}`,
		`{"type":"object","x-kubernetes-validations":[{"rule":"self.nothing"}]}`,
		`{"type":"object","x-kubernetes-validations":[{"rule":"1"}]}`,
		`{"type":"object","x-kubernetes-validations":[{"rule":"((("}]}`,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","x-kubernetes-validations":[{"rule":"self.contains('x')"}]}}}}`, `{"type":"object","properties":{"a":{"type":"array","items":{"type":"array","items":{"type":"array","items":{"type":"string","x-kubernetes-validations":[{"rule":"self.matches('a*b*')"}]}}}}}}`,
		`{"type":"object","x-kubernetes-validations":[{"rule":"true","message":"a\nb"}]}`,
		`{"type":"object","x-kubernetes-validations":[{"rule":"true","messageExpression":"1"}]}`,
		`{"type":"object","x-kubernetes-validations":[{"rule":"true","messageExpression":"((("}]}`,
		`{"type":"object","x-kubernetes-validations":[{"rule":"true","reason":"Other"}]}`,
		`{"type":"object","x-kubernetes-validations":[{"rule":"true","fieldPath":".nothing"}]}`,
		`{"type":"object","x-kubernetes-validations":[{"rule":"true","fieldPath":"x["}]}`,
		`{"type":"object","x-kubernetes-validations":[{"rule":"true","optionalOldSelf":true}]}`,
		`{"type":"object","properties":{"a":{"type":"array","x-kubernetes-list-type":"atomic","items":{"type":"string","x-kubernetes-validations":[{"rule":"self == oldSelf"}]}}}}`, `{"type":"object","title":"t","description":"d","externalDocs":{"url":"x"},"example":1}`, `{"type":"object","id":"x","$schema":"y","patternProperties":{"a":{"type":"string"}}}`,
		`{"type":"object","dependencies":{"a":["b"]}}`, `{"type":"object","readOnly":true}`, `null`, `[]`, `5`,
		`{"type":["object","null"]}`, `{"type":"object","properties":{"a":{"type":"integer","format":"int32","default":5000000000}}}`,
		`{"type":"object","properties":{"spec":{"type":"object","default":{"x":1},"properties":{"x":{"type":"integer"},"y":{"type":"string","default":"z"}}}}}`, `{"type":"object","nullable":true}`,
		`{"type":"object","properties":{"spec":{"type":"object","required":["x"]}}}`,
		`{"type":"object","properties":{"apiVersion":{"type":"integer"},"kind":{"type":"string"}}}`,
	} {
		var value any
		if v, err := decodeJSON([]byte(schema)); err == nil {
			value = v
		}
		try("schema "+schema, func(_, version fieldMap) { set(version, fieldMap{"openAPIV3Schema": value}, "schema") })
	}
	for _, text := range []string{
		`{"subresources":{"scale":{}}}`, `{"subresources":{"scale":{"specReplicasPath":"spec.replicas","statusReplicasPath":".status.replicas"}}}`, `{"subresources":{"scale":{"specReplicasPath":".spec.replicas","statusReplicasPath":".spec.replicas","labelSelectorPath":".x[0]"}}}`,
		`{"subresources":{"status":null}}`, `{"subresources":{"other":{}}}`,
		`{"additionalPrinterColumns":[{"name":"A"}]}`,
		`{"additionalPrinterColumns":[{"name":"A","type":"nothing","jsonPath":".a"}]}`,
		`{"additionalPrinterColumns":[{"name":"A","type":"string","jsonPath":"a"}]}`,
		`{"additionalPrinterColumns":[{"name":"A","type":"string","jsonPath":".a[","format":"nothing"}]}`,
		`{"additionalPrinterColumns":[{"name":"A","type":"string","jsonPath":".a"},{"name":"A","type":"string","jsonPath":".b"}]}`, `{"selectableFields":[{"jsonPath":".nothing"}]}`,
		`{"selectableFields":[{"jsonPath":".spec"}]}`,
		`{"selectableFields":[{"jsonPath":"spec"},{"jsonPath":".metadata.name"}]}`, `{"deprecationWarning":"x"}`,
		`{"deprecated":true,"deprecationWarning":""}`, `{"name":"V1"}`, `{"name":"v1.0"}`, `{"storage":false}`,
		`{"served":false}`, `{"unknown":1}`,
	} {
		patch, _ := decodeJSON([]byte(text))
		try("version "+text, func(spec, version fieldMap) {
			spec["versions"] = []any{merged(version, patch.(fieldMap))}
		})
	}
	for _, text := range []string{
		`{"conversion":{"strategy":"Other"}}`, `{"conversion":{"strategy":"Webhook"}}`,
		`{"conversion":{"strategy":"None","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://x"}}}}`, `{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v9"],"clientConfig":{"url":"http://x","service":{"name":"a"}}}}}`,
		`{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://x"}}}}`, `{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://x","caBundle":"eA=="}}}}`, `{"preserveUnknownFields":true}`,
		`{"versions":[{"name":"v1","served":true,"storage":true},{"name":"v1","served":true,"storage":true}]}`,
		`{"group":"k8s.io"}`, `{"group":"nothing.k8s.io"}`, `{"names":{"plural":"toys","kind":"toy"}}`,
		`{"names":{"plural":"toys","kind":"Toy","shortNames":["Bad_","t","t"],"categories":["Bad_"]}}`,
		`{"scope":"namespaced"}`, `{"unknown":1}`,
	} {
		patch, _ := decodeJSON([]byte(text))
		obj := d.object(own)
		obj["spec"] = merged(obj["spec"].(fieldMap), patch.(fieldMap))
		b.add("define "+text, http.MethodPost, definitionsPath+"?dryRun=All", body(obj))
		b.add("define strictly "+text, http.MethodPost, definitionsPath+"?dryRun=All&fieldValidation=Strict", body(obj))
	}
	b.add("define other name", http.MethodPost, definitionsPath+"?dryRun=All",
		body(with(d.object(own), "other."+own+".example.com", "metadata", "name")))
	b.add("define with status", http.MethodPost, definitionsPath+"?dryRun=All",
		body(with(d.object(own), fieldMap{"storedVersions": []any{"v7"}}, "status")))
	return b.steps
}

// lifecycle changes a definition that has instances, creates a conflicting one, and deletes it.
func lifecycle(own string, seed uint64) []step {
	d := readDefinitions()[0]
	b := d.builder(own, seed)
	path := definitionsPath + "/" + d.name(own)
	b.create("one")
	b.add("definition", http.MethodGet, path, save("crd"))
	put := func(label string, edit func(fieldMap)) {
		b.add("redefine "+label, http.MethodPut, path, change("crd", func(o fieldMap) {
			set(o, nil, "metadata", "resourceVersion")
			edit(o)
		}))
		b.add("redefined", http.MethodGet, path, established, save("crd"))
	}
	put("nothing", func(fieldMap) {})
	put("scope", func(o fieldMap) { set(o, "Cluster", "spec", "scope") })
	put("kind", func(o fieldMap) { set(o, "Other", "spec", "names", "kind") })
	put("plural", func(o fieldMap) { set(o, "others", "spec", "names", "plural") })
	put("group", func(o fieldMap) { set(o, "example.org", "spec", "group") })
	put("stored version dropped", func(o fieldMap) {
		set(firstVersion(o), "v2", "name")
	})
	put("without resourceVersion", func(o fieldMap) { set(o, "1", "metadata", "labels", "changed") })
	put("short names", func(o fieldMap) { set(o, []any{"zz"}, "spec", "names", "shortNames") })
	b.add("discovery after", http.MethodGet, b.root(), soon)
	put("new version", func(o fieldMap) {
		second := clone(firstVersion(o))
		second["name"], second["storage"] = "v2", false
		versions, _ := at(o, "spec", "versions").([]any)
		set(o, append(versions, second), "spec", "versions")
	})
	b.add("get in the new version", http.MethodGet, strings.Replace(b.named("one"), "/v1/", "/v2/", 1), soon)
	b.add("status of the definition", http.MethodPatch, path+"/status",
		bytesBody(mergePatch, `{"status":{"storedVersions":["v1","v2"]}}`))
	b.add("status without the stored version", http.MethodPatch, path+"/status",
		bytesBody(mergePatch, `{"status":{"storedVersions":["v9"]}}`))
	clash := d.object(own)
	set(clash, "others", "spec", "names", "plural")
	set(clash, fmt.Sprintf("others.%s.example.com", own), "metadata", "name")
	b.add("define a clash", http.MethodPost, definitionsPath, body(clash))
	b.add("get the clash", http.MethodGet, definitionsPath+"/others."+own+".example.com", established)
	b.add("list of the clash", http.MethodGet, b.root()+"/namespaces/"+own+"/others")
	b.add("delete the clash", http.MethodDelete, definitionsPath+"/others."+own+".example.com")
	b.add("delete the definition", http.MethodDelete, path)
	b.add("definition after", http.MethodGet, path, gone)
	b.add("instance after", http.MethodGet, b.named("one"), soon)
	b.add("list after", http.MethodGet, b.listing())
	b.add("discovery at last", http.MethodGet, "/apis/"+b.group, soon)
	return b.steps
}

// firstVersion returns the first version of a definition, or an empty one.
func firstVersion(definition fieldMap) fieldMap {
	if versions, _ := at(definition, "spec", "versions").([]any); len(versions) > 0 {
		return versions[0].(fieldMap)
	}
	return fieldMap{}
}

// gone waits until the response is 404.
func gone(s *step) { s.gone = true }
