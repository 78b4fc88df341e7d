package builtin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"

	"kelson.dev/apiserver/resource"
)

// quantitiesOf returns where objects of a kind contain quantities. The kind in a body decides which
// type the decoders use, even if the request must then fail; want is the default.
func (c *Codec) quantitiesOf(kind, want schema.GroupVersionKind) *quantities {
	if kind.Kind == "" {
		kind.Kind = want.Kind
	}
	if kind.Version == "" {
		kind.Group, kind.Version = want.Group, want.Version
	}
	t, ok := c.scheme.AllKnownTypes()[kind]
	if !ok {
		return nil
	}
	return quantitiesOf(t)
}

// CheckBody returns an error for a request body with quantities that are too expensive to parse. It
// must be called before a decoder parses the body. mediaType is as in Decode; want is the kind of a
// body that names none.
func (c *Codec) CheckBody(body []byte, mediaType string, want schema.GroupVersionKind) error {
	switch mediaType {
	case resource.MediaProtobuf:
		raw, kind := protobufBody(body)
		if q := c.quantitiesOf(kind, want); q != nil {
			return q.inProtobuf(raw).err(c.kind)
		}
	case resource.MediaCBOR:
		var object map[string]any
		if err := cbor.Unmarshal(body, &object); err != nil {
			return resource.Unreadable(c.kind.Kind, nil, body,
				fmt.Errorf("unable to determine group/version/kind: %w", err))
		}
		return c.CheckTree(object, want)
	case resource.MediaYAML:
		if converted, err := yaml.YAMLToJSON(body); err == nil { // the decoder does the same
			return c.checkJSON(converted, want)
		}
	case resource.MediaJSON:
		return c.checkJSON(body, want)
	}
	return nil
}

// checkJSON is CheckBody for JSON.
func (c *Codec) checkJSON(body []byte, want schema.GroupVersionKind) error {
	if !maySpend(body) && !bytes.Contains(body, []byte(`\u`)) { // escapes can hide a number in text
		return nil
	}
	kind, err := serializer.DefaultMetaFactory.Interpret(body)
	if err != nil {
		return nil
	}
	q := c.quantitiesOf(*kind, want)
	if q == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	wrong, _ := q.inJSON(d) // malformed JSON cannot be decoded
	return wrong.err(c.kind)
}

// CheckTree is like CheckBody, for an object that has been decoded to maps and lists.
func (c *Codec) CheckTree(object map[string]any, want schema.GroupVersionKind) error {
	version, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	if q := c.quantitiesOf(schema.FromAPIVersionAndKind(version, kind), want); q != nil {
		return q.inTree(object).err(c.kind)
	}
	return nil
}

// checkObject is CheckBody for a versioned object.
func (c *Codec) checkObject(versioned runtime.Object) error {
	t := reflect.TypeOf(versioned).Elem()
	if q := quantitiesOf(t); q != nil {
		return q.inObject(reflect.ValueOf(versioned)).err(c.kind)
	}
	return nil
}

// affordable is a field manager that checks the quantities of applied configurations.
type affordable struct {
	resource.FieldManager
	codec *Codec
	want  schema.GroupVersionKind
}

func (a affordable) Apply(live, config runtime.Object, by string, force bool) (runtime.Object, error) {
	if config, ok := config.(*unstructured.Unstructured); ok {
		if err := a.codec.CheckTree(config.Object, a.want); err != nil {
			return nil, err
		}
	}
	return a.FieldManager.Apply(live, config, by, force)
}
