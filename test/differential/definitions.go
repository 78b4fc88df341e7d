package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"sigs.k8s.io/yaml"
)

//go:embed definitions.yaml
var definitionText string

// sampleDefinition is a document of definitions.yaml.
type sampleDefinition struct {
	Name         string
	Subresources []string
	Definition   fieldMap
	Instance     fieldMap
	Changes      []fieldMap
}

func readDefinitions() []sampleDefinition {
	var all []sampleDefinition
	for doc := range strings.SplitSeq(definitionText, "\n---\n") {
		var d sampleDefinition
		if err := yaml.Unmarshal([]byte(doc), &d); err != nil {
			panic(fmt.Sprintf("definitions.yaml: %v", err)) // the file is embedded
		}
		all = append(all, d)
	}
	return all
}

// definitionStreams are the streams of custom kinds and of invalid definitions.
func definitionStreams(seed uint64) []*stream {
	var streams []*stream
	for _, d := range readDefinitions() {
		streams = append(streams, &stream{name: "custom/" + d.Name + "/instances", steps: func(own string) []step {
			return d.instances(own, seed)
		}},
			&stream{name: "custom/" + d.Name + "/verbs", steps: func(own string) []step { return d.verbs(own, seed) }})
	}
	return append(streams, &stream{name: "custom/broken", steps: func(own string) []step {
		return brokenDefinitions(own, seed)
	}},
		&stream{name: "custom/lifecycle", steps: func(own string) []step { return lifecycle(own, seed) }})
}

const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// object returns the definition, in the stream's own group.
func (d *sampleDefinition) object(own string) fieldMap {
	spec := clone(d.Definition)
	spec["group"] = own + ".example.com"
	plural := at(spec, "names", "plural").(string)
	return fieldMap{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": fieldMap{"name": plural + "." + own + ".example.com"}, "spec": spec}
}

// name returns the definition's name in paths.
func (d *sampleDefinition) name(own string) string {
	return at(d.object(own), "metadata", "name").(string)
}

// kind returns one version of the custom kind.
func (d *sampleDefinition) kind(own, version string) *kind {
	return &kind{group: own + ".example.com", version: version, resource: at(d.Definition, "names", "plural").(string),
		kind:       at(d.Definition, "names", "kind").(string),
		namespaced: d.Definition["scope"] == "Namespaced", subresources: d.Subresources,
		verbs: []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		sample: clone(with(with(d.Instance, own+".example.com/"+version, "apiVersion"),
			at(d.Definition, "names", "kind"), "kind"))}
}

func (d *sampleDefinition) builder(own string, seed uint64) *builder {
	version := at(d.Definition["versions"].([]any)[0], "name").(string)
	b := &builder{kind: d.kind(own, version), own: own, rnd: newRand(seed, d.Name)}
	b.steps = append(b.steps, inNamespace(own))
	b.add("define", http.MethodPost, definitionsPath, body(d.object(own)), always)
	b.add("defined", http.MethodGet, definitionsPath+"/"+d.name(own), always, established)
	return b
}

// always makes shrink keep a step.
func always(s *step) { s.always = true }

// established waits until a definition is established.
func established(s *step) { s.established = true }

// verbs sends the same requests as for built-in kinds.
func (d *sampleDefinition) verbs(own string, seed uint64) []step {
	b := d.builder(own, seed)
	b.allVerbs()
	return b.steps
}

// instances sends objects that the schema should accept or refuse, in every version.
func (d *sampleDefinition) instances(own string, seed uint64) []step {
	b := d.builder(own, seed)
	for _, media := range []string{"", asTable, asDiscovery, mediaProtobuf} {
		b.add("discovery of the group", http.MethodGet, "/apis/"+b.group, header("Accept", media), soon)
		b.add("discovery of the version", http.MethodGet, b.root(), header("Accept", media), soon)
	}
	versions, _ := d.Definition["versions"].([]any)
	for _, v := range versions {
		version := at(v, "name").(string)
		b.kind = d.kind(own, version)
		b.add("openapi", http.MethodGet, "/openapi/v3/apis/"+b.group+"/"+version, soon)
		name := "i-" + version
		b.create(name)
		for _, form := range []string{"", asTable, asPartial, mediaYAML, mediaCBOR} {
			b.add("get as "+form, http.MethodGet, b.named(name), accept(form))
			b.add("list as "+form, http.MethodGet, b.listing(), accept(form))
		}
		for _, query := range []string{"fieldSelector=spec.text%3Dabc", "fieldSelector=spec.enabled%3Dtrue",
			"fieldSelector=spec.size%3D5", "fieldSelector=spec.text!%3Dabc", "fieldSelector=spec.choice%3Dred"} {
			b.add("list ?"+query, http.MethodGet, b.listing(query))
		}
		for i, change := range d.Changes {
			text := mustJSON(change)
			for _, directive := range []string{"Strict", "Warn", "Ignore"} {
				b.add("create "+text+" "+directive, http.MethodPost, b.coll("dryRun=All", "fieldValidation="+directive),
					body(merged(b.obj(fmt.Sprintf("c%d", i)), change)))
			}
			b.add("update "+text, http.MethodPut, b.named(name, "dryRun=All"),
				replaced(name, func(o fieldMap) fieldMap { return merged(o, change) }))
			b.add("patch "+text, http.MethodPatch, b.named(name), bytesBody(mergePatch, text))
			b.add("apply "+text, http.MethodPatch, b.named(name, "fieldManager=a", "dryRun=All"),
				bytesBody(applyYAML, mustJSON(merged(b.obj(name), change))))
			b.add("apply force "+text, http.MethodPatch, b.named(name, "fieldManager=b", "force=true"),
				bytesBody(applyYAML, mustJSON(merged(b.obj(name), change))))
			if b.has("status") {
				b.add("patch status "+text, http.MethodPatch, b.sub(name, "status"), bytesBody(mergePatch, text))
			}
			b.add("get", http.MethodGet, b.named(name), save(name))
			for _, other := range versions {
				b.add("get in "+at(other, "name").(string), http.MethodGet,
					d.kind(own, at(other, "name").(string)).collection(own)+"/"+b.fullName(name))
			}
		}
		b.add("list at last", http.MethodGet, b.listing())
	}
	return b.steps
}

// soon makes a step retry for a while, because the peer publishes asynchronously.
func soon(s *step) { s.soon = true }

// replaced creates a body from the saved object with a function.
func replaced(name string, change func(fieldMap) fieldMap) option {
	return func(s *step) {
		s.body = func(m *memory) []byte {
			obj := m.object(name)
			if obj == nil {
				obj = fieldMap{}
			}
			return []byte(mustJSON(change(obj)))
		}
	}
}

// merged returns an object after a merge patch.
func merged(obj, patch fieldMap) fieldMap {
	c := clone(obj)
	for key, value := range patch {
		deep, isMap := value.(fieldMap)
		inner, _ := c[key].(fieldMap)
		switch {
		case isMap && inner != nil:
			c[key] = merged(inner, deep)
		default:
			c[key] = cloneAny(value) // keep the null, which is a value in the object
		}
	}
	return c
}

// encodedStreams define the sample kinds in each encoding of the definition. The typed client of
// apiextensions sends protobuf, whose Go objects differ from those of JSON.
func encodedStreams(seed uint64) []*stream {
	var streams []*stream
	for _, d := range readDefinitions() {
		for name, media := range map[string]string{"protobuf": mediaProtobuf, "cbor": mediaCBOR, "yaml": mediaYAML} {
			streams = append(streams, &stream{name: "custom/" + d.Name + "/in-" + name, steps: func(own string) []step {
				return d.encoded(own, media, seed)
			}})
		}
	}
	slices.SortFunc(streams, func(a, b *stream) int { return strings.Compare(a.name, b.name) })
	return streams
}

// encoded defines the kind in an encoding, and sends objects that the schema accepts or refuses.
func (d *sampleDefinition) encoded(own, media string, seed uint64) []step {
	b := d.builder(own, seed)
	for i := range b.steps {
		if b.steps[i].label == "define" {
			definition := encodeDefinition(d.object(own), media)
			b.steps[i].body = func(*memory) []byte { return definition }
			headerOf(&b.steps[i], "Content-Type", media)
		}
	}
	b.create("first")
	for i, change := range d.Changes {
		text := mustJSON(change)
		b.add("create "+text, http.MethodPost, b.coll("dryRun=All", "fieldValidation=Strict"),
			body(merged(b.obj(fmt.Sprintf("c%d", i)), change)))
		b.add("patch "+text, http.MethodPatch, b.named("first", "dryRun=All"), bytesBody(mergePatch, text))
		b.add("apply "+text, http.MethodPatch, b.named("first", "fieldManager=a", "force=true", "dryRun=All"),
			bytesBody(applyYAML, mustJSON(merged(b.obj("first"), change))))
	}
	b.add("get", http.MethodGet, b.named("first"))
	b.add("openapi", http.MethodGet, "/openapi/v3/apis/"+b.group+"/"+b.version, soon)
	return b.steps
}

// encodeDefinition encodes a definition in a media type.
func encodeDefinition(object fieldMap, media string) []byte {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	var data bytes.Buffer
	err := json.Unmarshal([]byte(mustJSON(object)), definition)
	switch {
	case err != nil:
	case media == mediaProtobuf:
		err = protobuf.NewSerializer(nil, nil).Encode(definition, &data)
	case media == mediaCBOR:
		var text []byte
		text, err = cbor.Marshal(object)
		data.Write(text)
	default:
		var text []byte
		text, err = yaml.Marshal(object)
		data.Write(text)
	}
	if err != nil {
		// definitions.yaml is embedded
		panic(fmt.Sprintf("encode the definition as %s: %v", media, err))
	}
	return data.Bytes()
}
