package fastpath_test

import (
	"testing"

	"kelson.dev/apiserver/fastpath/fieldset"
	"kelson.dev/apiserver/fastpath/shape"
	"kelson.dev/internal/assert"
)

var (
	text   = &shape.Shape{Kind: shape.Text}
	widget = &shape.Shape{Kind: shape.Object, Members: map[string]*shape.Shape{
		"metadata": {Kind: shape.Object, Members: map[string]*shape.Shape{"name": text,
			"labels": {Kind: shape.Object, Others: text}}},
		"spec": {Kind: shape.Object, Members: map[string]*shape.Shape{
			"count": {Kind: shape.Integer},
			"whole": {Kind: shape.Object, Atomic: true, Others: text},
			"set":   {Kind: shape.List, Keyed: true, Items: text},
			"ports": {Kind: shape.List, Keyed: true,
				Keys: []shape.Key{{Name: "port"}, {Name: "protocol", Default: "TCP"}}, Items: &shape.Shape{
					Kind: shape.Object, Members: map[string]*shape.Shape{"port": {Kind: shape.Integer},
						"protocol": text},
				}},
		}},
		"status": {Kind: shape.Object, Members: map[string]*shape.Shape{"phase": text}},
	}}
)

func object(metadata, spec map[string]any) map[string]any {
	return map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": spec}
}

// TestObject encodes the fields of small objects. want is "" for objects that only the library
// encodes.
func TestObject(t *testing.T) {
	none := map[string]any{}
	for name, test := range map[string]struct {
		object  map[string]any
		options fieldset.Options
		want    string
	}{
		"scalar": {object: object(none, map[string]any{"count": int64(1)}),
			want: `{"f:spec":{"f:count":{}}}`},
		"created": {object: object(none, map[string]any{"count": int64(1)}),
			options: fieldset.Options{Created: true}, want: `{"f:spec":{".":{},"f:count":{}}}`},
		"names have no owner": {object: object(map[string]any{"name": "w", "labels": map[string]any{"a": "b"}}, none),
			want: `{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{}}`},
		"atomic map": {object: object(none, map[string]any{"whole": map[string]any{"a": "b"}}),
			want: `{"f:spec":{"f:whole":{}}}`},
		"set": {object: object(none, map[string]any{"set": []any{"b", "a"}}),
			want: `{"f:spec":{"f:set":{"v:\"a\"":{},"v:\"b\"":{}}}}`},
		"keys sort as numbers, and have defaults": {
			object: object(none, map[string]any{"ports": []any{map[string]any{"port": int64(10)},
				map[string]any{"port": int64(9), "protocol": "UDP"}}}),
			want: `{"f:spec":{"f:ports":{"k:{\"port\":9,\"protocol\":\"UDP\"}":{".":{},"f:port":{},"f:protocol":{}},"k:{\"port\":10,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}`,
		},
		"reset": {object: map[string]any{"spec": map[string]any{"count": int64(1)},
			"status": map[string]any{"phase": "x"}}, options: fieldset.Options{Reset: []string{"status"}},
			want: `{"f:spec":{"f:count":{}}}`},
		"null": {object: object(none, map[string]any{"count": nil}), options: fieldset.Options{Nulls: true},
			want: `{"f:spec":{"f:count":{}}}`},
		"no nulls":       {object: object(none, map[string]any{"count": nil})},
		"other type":     {object: object(none, map[string]any{"count": "1"})},
		"undeclared":     {object: object(none, map[string]any{"other": "1"})},
		"reset type":     {object: map[string]any{"status": "x"}, options: fieldset.Options{Reset: []string{"status"}}},
		"same elements":  {object: object(none, map[string]any{"set": []any{"a", "a"}})},
		"no key":         {object: object(none, map[string]any{"ports": []any{map[string]any{"protocol": "UDP"}}})},
		"escaped name":   {object: object(map[string]any{"labels": map[string]any{`"`: "b"}}, none)},
		"managedFields":  {object: object(map[string]any{"managedFields": []any{}}, none)},
		"nothing to own": {object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := fieldset.NewWriter()
			defer w.Free()
			ok := w.Object(test.object, widget, test.options)
			if ok != (test.want != "") || ok && string(w.Raw) != test.want {
				t.Errorf("got %s %t, want %s", w.Raw, ok, test.want)
			}
		})
	}
}

// TestPlain checks strings that JSON would escape.
func TestPlain(t *testing.T) {
	for text, want := range map[string]bool{"": true, "app.example.com/x": true, `"`: false, `\`: false, "<": false,
		"&": false, "é": false, "\n": false, "\x7f": false} {
		assert.Equalf(t, fieldset.Plain(text), want, "Plain(%q)", text)
	}
}
