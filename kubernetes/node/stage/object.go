package stage

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Object is an object in the forms that expressions and templates need.
type Object struct {
	*unstructured.Unstructured     // numbers are float64
	numbered                   any // numbers are json.Number, for templates
}

// NewObject returns an object from its JSON. apiVersion and kind are taken from the Stages and set
// in the object.
func NewObject(data []byte, apiVersion, kind string) (*Object, error) {
	o := &Object{Unstructured: &unstructured.Unstructured{}}
	if err := json.Unmarshal(data, &o.Object); err != nil {
		return nil, fmt.Errorf("decode object: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var numbered map[string]any
	if err := decoder.Decode(&numbered); err != nil {
		return nil, fmt.Errorf("decode object: %w", err)
	}
	for _, fields := range []map[string]any{o.Object, numbered} {
		if fields == nil {
			return nil, fmt.Errorf("decode object: %.20q is not an object", data)
		}
		fields["apiVersion"], fields["kind"] = apiVersion, kind
	}
	o.numbered = numbered
	return o, nil
}

// typed reports whether KWOK has a Go type for the object's kind, which changes the default type of
// patches and how times look to CEL.
func (o *Object) typed() bool {
	return o.GetAPIVersion() == "v1" && (o.GetKind() == "Pod" || o.GetKind() == "Node")
}
