package crd

import (
	"encoding/json"
	"fmt"
	"go/token"
	"math"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
)

const (
	validation = "kubebuilder:validation:"
	items      = validation + "items:"
)

// apply applies markers to a schema. It begins with the markers that set the type, because others
// are checked against the type.
func (b *builder) apply(s *props, ms marker.Markers) {
	if len(ms) == 0 {
		return
	}
	ordered := slices.Clone(ms)
	sort.SliceStable(ordered, func(i, j int) bool { return rank(ordered[i].Name) < rank(ordered[j].Name) })
	for _, m := range ordered {
		name, target := m.Name, s
		if rest, ok := strings.CutPrefix(name, items); ok {
			if s.Type == "array" && s.Ref != nil {
				b.misused(m, "has no effect here, because the type %s declares the elements; move it to that type",
					*s.Ref)
				continue
			}
			if s.Type != "array" || s.Items == nil || s.Items.Schema == nil {
				b.misused(m, "needs a list, this is %s", described(s))
				continue
			}
			name, target = validation+rest, s.Items.Schema
		}
		if err := b.one(target, name, m); err != nil {
			b.misused(m, "%v", err)
		}
	}
}

// schemaMarkers are the markers that change a schema, besides those of kubebuilder:validation.
var schemaMarkers = []string{
	"kubebuilder:pruning:PreserveUnknownFields", "kubebuilder:default", "kubebuilder:example", "kubebuilder:title",
	"kubebuilder:externalDocs",
	"default", "nullable", "listType", "listMapKey", "mapType", "structType", "k8s:minimum", "k8s:maximum",
	"k8s:maxItems", "k8s:immutable",
	"k8s:required", "k8s:enum", "k8s:listType", "k8s:listMapKey",
}

// ineffective reports the markers of a schema among ms, which are not applied.
func (b *builder) ineffective(ms marker.Markers, format string, args ...any) {
	for _, m := range ms {
		if strings.HasPrefix(m.Name, validation) || slices.Contains(schemaMarkers, m.Name) {
			b.misused(m, format, args...)
		}
	}
}

// rank orders markers: first those that set types, then the others in the order of the source, then
// rules over several fields, then markers that depend on the result.
func rank(name string) int {
	after := 0
	if rest, ok := strings.CutPrefix(name, items); ok {
		name, after = validation+rest, 10
	}
	switch name {
	case validation + "Type", validation + "XIntOrString", "listType", "k8s:listType", "default":
		return after
	case validation + "AtMostOneOf":
		return after + 2
	case validation + "ExactlyOneOf":
		return after + 3
	case validation + "AtLeastOneOf":
		return after + 4
	case "k8s:required":
		return after + 5 // adds a minimum only if none is set
	}
	return after + 1
}

func described(s *props) string {
	switch {
	case s.Type != "":
		return "of type " + s.Type
	case s.XIntOrString:
		return "an int-or-string"
	}
	return "of another type"
}

// one applies a single marker.
func (b *builder) one(s *props, name string, m *marker.Marker) error {
	if short, ok := strings.CutPrefix(name, validation); ok {
		return b.validate(s, short, m)
	}
	switch name {
	case "k8s:minimum", "k8s:maximum":
		return b.validate(s, map[string]string{"k8s:minimum": "Minimum", "k8s:maximum": "Maximum"}[name], m)
	case "k8s:maxItems":
		return b.validate(s, "MaxItems", m)
	case "kubebuilder:pruning:PreserveUnknownFields":
		return b.validate(s, "XPreserveUnknownFields", m)
	case "nullable":
		s.Nullable = true
	case "kubebuilder:default", "default":
		if m.Value == nil {
			return nil
		}
		def, err := raw(m.Value)
		if s.Type == "array" && string(def.Raw) == "{}" {
			def.Raw = []byte("[]")
		}
		s.Default = def
		return err
	case "kubebuilder:example":
		example, err := raw(m.Value)
		s.Example = example
		return err
	case "kubebuilder:title":
		title, ok := m.Value.(string)
		if !ok {
			return fmt.Errorf("needs a string")
		}
		s.Title = title
	case "kubebuilder:externalDocs":
		if _, err := url.ParseRequestURI(m.String("url")); err != nil {
			return fmt.Errorf("has an invalid URL: %w", err)
		}
		s.ExternalDocs = &apiextensionsv1.ExternalDocumentation{URL: m.String("url"),
			Description: m.String("description")}
	case "k8s:immutable":
		s.XValidations = append(s.XValidations, apiextensionsv1.ValidationRule{Rule: "self == oldSelf",
			Message: "field is immutable"})
	case "k8s:required":
		notEmpty(s)
	case "k8s:enum":
		return b.constants(s)
	case "listType", "k8s:listType", "listMapKey", "k8s:listMapKey", "mapType", "structType":
		return topology(s, strings.TrimPrefix(name, "k8s:"), m.Text())
	}
	return nil
}

// validate applies a marker of the kubebuilder:validation family.
func (b *builder) validate(s *props, name string, m *marker.Marker) error {
	numeric := s.Type == "integer" || s.Type == "number"
	textual := s.Type == "string" || s.XIntOrString
	switch name {
	case "Maximum", "Minimum", "MultipleOf", "ExclusiveMaximum", "ExclusiveMinimum":
		if !numeric {
			return fmt.Errorf("needs a number, this is %s", described(s))
		}
		if n, ok := m.Value.(float64); ok && s.Type == "integer" && n != math.Trunc(n) {
			return fmt.Errorf("needs an integer, as the field is one, not %v", n)
		}
	case "MaxLength", "MinLength", "Pattern":
		if !textual {
			return fmt.Errorf("needs a string, this is %s", described(s))
		}
	case "MaxItems", "MinItems", "UniqueItems":
		if s.Type != "array" {
			return fmt.Errorf("needs a list, this is %s", described(s))
		}
	case "MaxProperties", "MinProperties":
		if s.Type != "object" {
			return fmt.Errorf("needs a map or struct, this is %s", described(s))
		}
	}
	switch v := m.Value.(type) {
	case float64:
		*map[string]**float64{"Maximum": &s.Maximum, "Minimum": &s.Minimum, "MultipleOf": &s.MultipleOf}[name] = &v
	case int64:
		*map[string]**int64{"MaxLength": &s.MaxLength, "MinLength": &s.MinLength, "MaxItems": &s.MaxItems,
			"MinItems":      &s.MinItems,
			"MaxProperties": &s.MaxProperties, "MinProperties": &s.MinProperties}[name] = &v
	case bool:
		*map[string]*bool{"ExclusiveMaximum": &s.ExclusiveMaximum, "ExclusiveMinimum": &s.ExclusiveMinimum,
			"UniqueItems": &s.UniqueItems}[name] = v
	case string:
		*map[string]*string{"Pattern": &s.Pattern, "Format": &s.Format, "Type": &s.Type}[name] = v
	case []any: // Enum
		s.Enum = nil
		for _, e := range v {
			j, err := raw(e)
			if err != nil {
				return err
			}
			s.Enum = append(s.Enum, *j)
		}
	case []string:
		if rule := oneOfRule(m.Name); rule != nil && len(v) > 0 {
			s.XValidations = append(s.XValidations, *rule(v))
		}
	default:
		switch name {
		case "XPreserveUnknownFields":
			yes := true
			s.XPreserveUnknownFields = &yes
		case "XEmbeddedResource", "EmbeddedResource":
			s.XEmbeddedResource = true
		case "XIntOrString":
			s.XIntOrString = true
		case "XValidation":
			return celRule(s, m)
		}
	}
	return nil
}

func celRule(s *props, m *marker.Marker) error {
	rule := apiextensionsv1.ValidationRule{Rule: m.String("rule"), Message: m.String("message"),
		MessageExpression: m.String("messageExpression"),
		FieldPath:         m.String("fieldPath"), OptionalOldSelf: m.Bool("optionalOldSelf")}
	if r := apiextensionsv1.FieldValueErrorReason(m.String("reason")); r != "" {
		known := []apiextensionsv1.FieldValueErrorReason{apiextensionsv1.FieldValueRequired,
			apiextensionsv1.FieldValueInvalid,
			apiextensionsv1.FieldValueForbidden, apiextensionsv1.FieldValueDuplicate}
		if !slices.Contains(known, r) {
			return fmt.Errorf("has an unknown reason %q; the reasons are %v", r, known)
		}
		rule.Reason = &r
	}
	s.XValidations = append(s.XValidations, rule)
	return nil
}

// oneOfRule returns the CEL rule of an AtMostOneOf, ExactlyOneOf or AtLeastOneOf marker, or nil for
// other markers.
func oneOfRule(name string) func(fields []string) *apiextensionsv1.ValidationRule {
	make := func(each, join, compare, message string) func([]string) *apiextensionsv1.ValidationRule {
		return func(fields []string) *apiextensionsv1.ValidationRule {
			terms := []string{}
			for _, f := range fields {
				name, _ := celIdentifier(f) // oneOfFields reports the fields that have none
				terms = append(terms, fmt.Sprintf(each, name))
			}
			return &apiextensionsv1.ValidationRule{Rule: strings.Join(terms, join) + compare,
				Message: fmt.Sprintf(message, fields)}
		}
	}
	switch name {
	case validation + "AtMostOneOf":
		return make("(has(self.%s)?1:0)", "+", " <= 1", "at most one of the fields in %v may be set")
	case validation + "ExactlyOneOf":
		return make("(has(self.%s)?1:0)", "+", " == 1", "exactly one of the fields in %v must be set")
	case validation + "AtLeastOneOf":
		return make("has(self.%s)", "||", "", "at least one of the fields in %v must be set")
	}
	return nil
}

// notEmpty sets the minimum length of a required value to one, unless one is set.
func notEmpty(s *props) {
	one := int64(1)
	switch {
	case s.Type == "string" && s.MinLength == nil:
		s.MinLength = &one
	case s.Type == "array" && s.MinItems == nil:
		s.MinItems = &one
	case (s.Type == "object" || s.Type == "" && s.Ref != nil) && s.MinProperties == nil:
		s.MinProperties = &one
	}
}

// constants sets the enum to the string constants that are declared with the type.
func (b *builder) constants(s *props) error {
	if u, ok := b.current.Type().Underlying().(*loader.Basic); !ok || u.Name != "string" {
		return fmt.Errorf("needs a string type")
	}
	s.Type, s.Enum = "string", nil
	for _, c := range b.current.Pkg.Consts() {
		if c.Type != b.current.Name || c.Kind != token.STRING {
			continue
		}
		text, err := strconv.Unquote(c.Value)
		if err != nil {
			return err
		}
		j, err := raw(text)
		if err != nil {
			return err
		}
		s.Enum = append(s.Enum, *j)
	}
	if len(s.Enum) == 0 {
		return fmt.Errorf("found no constants of type %s", b.current.Name)
	}
	sort.Slice(s.Enum, func(i, j int) bool { return string(s.Enum[i].Raw) < string(s.Enum[j].Raw) })
	return nil
}

// topology applies the markers that determine how values merge.
func topology(s *props, name, value string) error {
	oneOf := func(allowed ...string) error {
		if slices.Contains(allowed, value) {
			return nil
		}
		return fmt.Errorf("is %s, not %q", strings.Join(allowed, " or "), value)
	}
	switch name {
	case "listType":
		if s.Type != "array" {
			return fmt.Errorf("needs a list, this is %s", described(s))
		}
		if err := oneOf("map", "set", "atomic"); err != nil {
			return err
		}
		s.XListType = &value
		return nil
	case "listMapKey":
		if s.Type != "array" || s.XListType == nil || *s.XListType != "map" {
			return fmt.Errorf("needs a list with +listType=map")
		}
		if !slices.Contains(s.XListMapKeys, value) {
			s.XListMapKeys = append(s.XListMapKeys, value)
		}
		return nil
	case "mapType":
		if s.Type != "object" {
			return fmt.Errorf("needs a map, this is %s", described(s))
		}
	default: // structType
		if s.Type != "object" && s.Type != "" {
			return fmt.Errorf("needs a struct, this is %s", described(s))
		}
	}
	if err := oneOf("granular", "atomic"); err != nil {
		return err
	}
	s.XMapType = &value
	return nil
}

func raw(v any) (*apiextensionsv1.JSON, error) {
	data, err := json.Marshal(v)
	return &apiextensionsv1.JSON{Raw: data}, err
}
