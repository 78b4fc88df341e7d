// Package goschema derives the schemas of Go types that are API objects, for OpenAPI documents and
// for the merges of server-side apply.
//
//	schema, err := goschema.Of(reflect.TypeFor[v1.Pizza]())
//
// The schema is structural, as in a CustomResourceDefinition. It follows the JSON encoding of the
// types. Fields without omitempty or omitzero that are not pointers are required. The struct tags
// patchStrategy and patchMergeKey of Kubernetes' types, and the method OpenAPIMerge of a struct,
// make lists maps or sets; all other lists are atomic. Descriptions come from the method
// SwaggerDoc, where types have it; kelson generate writes both methods. Types that encode
// themselves and do not implement the methods OpenAPISchemaType and OpenAPISchemaFormat, and types
// that contain themselves, can have any content.
package goschema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Schema is a structural schema.
type Schema = apiextensionsv1.JSONSchemaProps

// Of returns the schema of a struct type. The schema of metadata is only "object", as in a
// CustomResourceDefinition.
func Of(t reflect.Type) (*Schema, error) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("schema of %s: not a struct", t)
	}
	w := &walk{inside: map[reflect.Type]bool{}}
	s := w.schemaOf(t)
	if w.err != nil {
		return nil, fmt.Errorf("schema of %s: %w", t, w.err)
	}
	return &s, nil
}

type walk struct {
	inside map[reflect.Type]bool // types that contain the current one
	err    error
}

var (
	objectMetaType = reflect.TypeFor[metav1.ObjectMeta]()
	typeMetaType   = reflect.TypeFor[metav1.TypeMeta]()
	fieldsType     = reflect.TypeFor[metav1.FieldsV1]()
	rawType        = reflect.TypeFor[runtime.RawExtension]()
	timeType       = reflect.TypeFor[time.Time]()
	marshalerType  = reflect.TypeFor[json.Marshaler]()
	textType       = reflect.TypeFor[encoding.TextMarshaler]()
)

// declared is implemented by types that declare their JSON type, as Kubernetes' own types do.
type declared interface {
	OpenAPISchemaType() []string
	OpenAPISchemaFormat() string
}

// oneOfTypes is implemented by types with one of several JSON types.
type oneOfTypes interface{ OpenAPIV3OneOfTypes() []string }

func anything() Schema {
	yes := true
	return Schema{XPreserveUnknownFields: &yes}
}

func (w *walk) schemaOf(t reflect.Type) Schema {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case objectMetaType:
		return Schema{Type: "object"}
	case fieldsType, rawType:
		s := anything()
		s.Type = "object"
		return s
	case timeType:
		return Schema{Type: "string", Format: "date-time"}
	}
	value := reflect.New(t).Interface()
	if d, ok := value.(declared); ok {
		return declaredSchema(d)
	}
	switch {
	case reflect.PointerTo(t).Implements(marshalerType):
		return anything()
	case reflect.PointerTo(t).Implements(textType):
		return Schema{Type: "string"}
	}
	return w.ofKind(t)
}

func declaredSchema(d declared) Schema {
	types := d.OpenAPISchemaType()
	if e, ok := d.(oneOfTypes); ok && len(e.OpenAPIV3OneOfTypes()) > 1 {
		return Schema{XIntOrString: true}
	}
	if len(types) != 1 {
		return anything()
	}
	return Schema{Type: types[0], Format: d.OpenAPISchemaFormat()}
}

func (w *walk) ofKind(t reflect.Type) Schema {
	switch t.Kind() {
	case reflect.String:
		return Schema{Type: "string"}
	case reflect.Bool:
		return Schema{Type: "boolean"}
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Uint8, reflect.Uint16:
		return Schema{Type: "integer", Format: "int32"}
	case reflect.Int, reflect.Int64, reflect.Uint, reflect.Uint32, reflect.Uint64:
		return Schema{Type: "integer", Format: "int64"}
	case reflect.Float32:
		return Schema{Type: "number", Format: "float"}
	case reflect.Float64:
		return Schema{Type: "number", Format: "double"}
	case reflect.Interface:
		return anything()
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return Schema{Type: "string", Format: "byte"}
		}
		items := w.schemaOf(t.Elem())
		return Schema{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &items}}
	case reflect.Map:
		values := w.schemaOf(t.Elem())
		return Schema{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true,
			Schema: &values}}
	case reflect.Struct:
		return w.ofStruct(t)
	}
	if w.err == nil {
		w.err = fmt.Errorf("%s has no JSON form", t)
	}
	return Schema{}
}

func (w *walk) ofStruct(t reflect.Type) Schema {
	if w.inside[t] {
		s := anything()
		s.Type = "object"
		return s
	}
	w.inside[t] = true
	defer delete(w.inside, t)
	s := Schema{Type: "object", Properties: map[string]Schema{}}
	var doc map[string]string
	var merge map[string][]string
	if m, ok := reflect.New(t).Interface().(interface{ OpenAPIMerge() map[string][]string }); ok {
		merge = m.OpenAPIMerge()
	}
	if doc = docOf(t); doc != nil {
		s.Description = doc[""]
	}
	for i := range t.NumField() {
		w.addField(&s, t.Field(i), doc, merge)
	}
	slices.Sort(s.Required)
	return s
}

// docOf returns the descriptions of a struct and its fields. It returns nil if the struct has the
// method of an embedded field, which describes only that field.
func docOf(t reflect.Type) map[string]string {
	d, ok := reflect.New(t).Interface().(interface{ SwaggerDoc() map[string]string })
	if !ok {
		return nil
	}
	doc := d.SwaggerDoc()
	for i := range t.NumField() {
		f := t.Field(i)
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if f.Anonymous && inner.Kind() == reflect.Struct && reflect.DeepEqual(docOf(inner), doc) {
			return nil
		}
	}
	return doc
}

func (w *walk) addField(s *Schema, f reflect.StructField, doc map[string]string, merge map[string][]string) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	inline := strings.Contains(","+options+",", ",inline,")
	switch {
	case name == "-" && options == "", !f.IsExported() && !f.Anonymous:
		return
	case f.Type == typeMetaType:
		s.Properties["apiVersion"], s.Properties["kind"] = Schema{Type: "string"}, Schema{Type: "string"}
		return
	case f.Anonymous && name == "" || inline:
		w.embed(s, f.Type)
		return
	case name == "":
		name = f.Name
	}
	field := w.schemaOf(f.Type)
	if text := doc[name]; text != "" {
		field.Description = text
	}
	listType(&field, f.Tag)
	mergeType(&field, merge[name])
	s.Properties[name] = field
	optional := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero") ||
		f.Type.Kind() == reflect.Pointer
	if !optional {
		s.Required = append(s.Required, name)
	}
}

// embed adds the fields of an embedded struct, which are encoded as fields of the outer one.
func (w *walk) embed(s *Schema, t reflect.Type) {
	inner := w.schemaOf(t)
	for name, property := range inner.Properties {
		if _, found := s.Properties[name]; !found {
			s.Properties[name] = property
		}
	}
	s.Required = append(s.Required, inner.Required...)
}

// listType sets how a list merges, from the tags of strategic merge patch.
func listType(s *Schema, tag reflect.StructTag) {
	if s.Type != "array" || !strings.Contains(tag.Get("patchStrategy"), "merge") {
		return
	}
	kind := "set"
	if key := tag.Get("patchMergeKey"); key != "" {
		kind = "map"
		s.XListMapKeys = []string{key}
	}
	s.XListType = &kind
}

// mergeType sets how a field merges: by a strategy, and for lists that are maps by keys.
func mergeType(s *Schema, merge []string) {
	switch {
	case len(merge) == 0:
	case s.Type == "array":
		s.XListType, s.XListMapKeys = &merge[0], merge[1:]
		if merge[0] != "map" {
			s.XListMapKeys = nil
		}
	case s.Type == "object":
		s.XMapType = &merge[0]
	}
}

// At returns the schema of the field at a path of names separated by dots, and a function that
// replaces it. The path names fields only: At enters the elements of a list without a name for
// them. It returns nil if the schema does not have the field.
func At(s *Schema, path string) (*Schema, func(Schema)) {
	set := func(Schema) {}
	for name := range strings.SplitSeq(path, ".") {
		for s.Items != nil && s.Items.Schema != nil {
			s = s.Items.Schema
		}
		property, ok := s.Properties[name]
		if !ok {
			return nil, nil
		}
		outer := s
		set = func(next Schema) { outer.Properties[name] = next }
		s = &property
	}
	return s, set
}
