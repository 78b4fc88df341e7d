package vet

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Compare reports changes of definitions that break stored objects or existing clients as an
// [Error], and changes that may break them as a [Warning]. It does not report compatible additions.
// It compares only the definitions, and does not know whether a stored object violates a new
// restriction. API servers ratchet validation: they accept a stored value that is now invalid until
// a client changes it.
func Compare(before, after []Definition) []Finding {
	c := &comparison{}
	for _, old := range before {
		i := slices.IndexFunc(after, func(d Definition) bool { return d.Name == old.Name })
		if i < 0 {
			c.findings = append(c.findings, Finding{
				Severity: Error, File: old.File, Line: 0, Object: old.Title(),
				Message: "the definition was removed, which deletes all stored objects of the kind",
			})
			continue
		}
		c.definition(old, after[i])
	}
	return c.findings
}

type comparison struct {
	now      Definition
	findings []Finding
}

func (c *comparison) say(s Severity, place, path, format string, args ...any) {
	c.findings = append(c.findings, Finding{
		Severity: s, File: c.now.File, Line: c.now.Line(place), Object: c.now.Title(), Path: path,
		Message: fmt.Sprintf(format, args...),
	})
}

func (c *comparison) definition(old, now Definition) {
	c.now = now
	if old.Spec.Scope != now.Spec.Scope {
		c.say(Error, "spec.scope", "spec.scope",
			"was %s: the paths of all objects change, and an API server rejects it", old.Spec.Scope)
	}
	if old.Spec.Names.Kind != now.Spec.Names.Kind {
		c.say(Error, "spec.names.kind", "spec.names.kind", "was %s: clients do not find the kind by its new name",
			old.Spec.Names.Kind)
	}
	for _, name := range old.Spec.Names.ShortNames {
		if !slices.Contains(now.Spec.Names.ShortNames, name) {
			c.say(Warning, "spec.names", "spec.names.shortNames", "%q was removed: commands that use it fail", name)
		}
	}
	stored := func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage }
	for _, was := range old.Spec.Versions {
		i := slices.IndexFunc(now.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == was.Name
		})
		if i < 0 {
			if was.Storage {
				c.say(Error, "spec.versions", "spec.versions",
					"%s, the storage version, was removed: an API server rejects it while status.storedVersions lists the version", was.Name)
			} else if was.Served {
				c.say(Error, "spec.versions", "spec.versions",
					"%s was removed: its clients fail; migrate the objects and stop serving the version first",
					was.Name)
			}
			continue
		}
		c.version(i, was, now.Spec.Versions[i])
	}
	wasStored, isStored := slices.IndexFunc(old.Spec.Versions, stored), slices.IndexFunc(now.Spec.Versions, stored)
	if wasStored >= 0 && isStored >= 0 && old.Spec.Versions[wasStored].Name != now.Spec.Versions[isStored].Name {
		c.say(Warning, fmt.Sprintf("spec.versions[%d].storage", isStored),
			fmt.Sprintf("spec.versions[%d].storage", isStored),
			"the storage version is now %s: existing objects stay in %s until they are written",
			now.Spec.Versions[isStored].Name, old.Spec.Versions[wasStored].Name)
	}
	if strategy(old) == apiextensionsv1.WebhookConverter && strategy(now) != apiextensionsv1.WebhookConverter &&
		len(now.Spec.Versions) > 1 {
		c.say(Error, "spec.conversion", "spec.conversion",
			"versions are no longer converted: objects lose fields whose names differ between versions")
	}
}

func strategy(d Definition) apiextensionsv1.ConversionStrategyType {
	if d.Spec.Conversion == nil {
		return apiextensionsv1.NoneConverter
	}
	return d.Spec.Conversion.Strategy
}

func (c *comparison) version(i int, was, is apiextensionsv1.CustomResourceDefinitionVersion) {
	at := fmt.Sprintf("spec.versions[%d]", i)
	if was.Served && !is.Served {
		c.say(Error, at+".served", is.Name, "is no longer served: its clients fail")
	}
	if is.Deprecated && !was.Deprecated {
		c.say(Warning, at+".deprecated", is.Name, "is deprecated: its clients get warnings")
	}
	c.subresources(at+".subresources", is.Name, was.Subresources, is.Subresources)
	for _, f := range was.SelectableFields {
		if !slices.Contains(is.SelectableFields, f) {
			c.say(Error, at, is.Name, "%s is no longer selectable: field selectors that use it fail", f.JSONPath)
		}
	}
	old, now := schemaOf(was), schemaOf(is)
	switch {
	case old == nil && now != nil:
		c.say(Warning, at+".schema", is.Name, "now has a schema; stored objects were not validated against it")
	case old != nil && now != nil:
		c.schema(place{at + ".schema.openAPIV3Schema", is.Name + ":"}, old, now)
	}
}

func schemaOf(v apiextensionsv1.CustomResourceDefinitionVersion) *apiextensionsv1.JSONSchemaProps {
	if v.Schema == nil {
		return nil
	}
	return v.Schema.OpenAPIV3Schema
}

func (c *comparison) subresources(at, version string, was, is *apiextensionsv1.CustomResourceSubresources) {
	if was == nil {
		was = &apiextensionsv1.CustomResourceSubresources{}
	}
	if is == nil {
		is = &apiextensionsv1.CustomResourceSubresources{}
	}
	switch {
	case was.Status != nil && is.Status == nil:
		c.say(Error, at, version, "the subresource status was removed: clients that write it fail")
	case was.Status == nil && is.Status != nil:
		c.say(Error, at, version, "status is now a subresource: writes of the object no longer change it")
	}
	switch {
	case was.Scale != nil && is.Scale == nil:
		c.say(Error, at, version, "the subresource scale was removed: autoscalers and kubectl scale fail")
	case was.Scale != nil && (was.Scale.SpecReplicasPath != is.Scale.SpecReplicasPath ||
		was.Scale.StatusReplicasPath != is.Scale.StatusReplicasPath):
		c.say(Warning, at+".scale", version, "scale now uses other fields")
	}
}

// place is the position of a schema: its path in the document, and the field path for messages.
type place struct{ document, field string }

func (p place) property(name string) place {
	field := p.field + "." + name
	if strings.HasSuffix(p.field, ":") {
		field = p.field + " " + name
	}
	return place{fmt.Sprintf("%s.properties[%s]", p.document, name), field}
}

func (p place) items() place  { return place{p.document + ".items", p.field + "[]"} }
func (p place) values() place { return place{p.document + ".additionalProperties", p.field + "[*]"} }

type schema = apiextensionsv1.JSONSchemaProps

// schema compares two schemas.
func (c *comparison) schema(at place, was, is *schema) {
	breaks := func(keyword, format string, args ...any) {
		c.say(Error, at.document+"."+keyword, at.field, format, args...)
	}
	if before, now := typeOf(was), typeOf(is); before != now && !widened(before, now) {
		breaks("type", "is now %s, was %s", now, before)
		return
	}
	if was.Nullable && !is.Nullable {
		breaks("nullable", "can no longer be null")
	}
	if keeps(was) && !keeps(is) {
		breaks("x-kubernetes-preserve-unknown-fields", "unknown fields are now pruned")
	}
	c.bounds(at, was, is)
	c.lists(at, was, is)
	c.rules(at, was, is)
	c.defaults(at, was, is)
	c.members(at, was, is)
	if a, b := itemsOf(was), itemsOf(is); a != nil && b != nil {
		c.schema(at.items(), a, b)
	}
	a, b := valuesOf(was), valuesOf(is)
	switch {
	case a != nil && b != nil:
		c.schema(at.values(), a, b)
	case a != nil && b == nil && !keeps(is):
		breaks("properties", "no longer allows any key: keys that are not in the schema are pruned")
	}
}

// members compares the fields of objects.
func (c *comparison) members(at place, was, is *schema) {
	for _, name := range slices.Sorted(maps.Keys(was.Properties)) {
		before := was.Properties[name]
		now, ok := is.Properties[name]
		switch {
		case ok:
			c.schema(at.property(name), &before, &now)
		case valuesOf(is) != nil || keeps(is):
		default:
			c.say(Error, at.document+".properties", at.property(name).field,
				"was removed: writes of it are rejected or ignored, and stored values are pruned")
		}
	}
	for _, name := range is.Required {
		if slices.Contains(was.Required, name) {
			continue
		}
		if p, ok := is.Properties[name]; ok && p.Default != nil {
			continue
		}
		c.say(Error, at.document+".required", at.property(name).field,
			"is now required: objects without it are rejected")
	}
}

// bounds compares the restrictions of values.
func (c *comparison) bounds(at place, was, is *schema) {
	breaks := func(keyword, format string, args ...any) {
		c.say(Error, at.document+"."+keyword, at.field, format, args...)
	}
	if len(is.Enum) > 0 {
		if len(was.Enum) == 0 {
			breaks("enum", "must now be one of %s", listed(is.Enum))
		}
		for _, v := range was.Enum {
			if !slices.ContainsFunc(is.Enum, func(w apiextensionsv1.JSON) bool { return bytes.Equal(v.Raw, w.Raw) }) {
				breaks("enum", "can no longer be %s", v.Raw)
			}
		}
	}
	if is.Pattern != "" && is.Pattern != was.Pattern {
		breaks("pattern", "must now match %q%s", is.Pattern, before(was.Pattern != "", "%q", was.Pattern))
	}
	if is.Format != "" && is.Format != was.Format {
		breaks("format", "must now have the format %s%s", is.Format, before(was.Format != "", "%s", was.Format))
	}
	for _, b := range []struct {
		keyword string
		was, is *int64
		least   bool
	}{
		{"maxLength", was.MaxLength, is.MaxLength, false},
		{"maxItems", was.MaxItems, is.MaxItems, false},
		{"maxProperties", was.MaxProperties, is.MaxProperties, false},
		{"minLength", was.MinLength, is.MinLength, true},
		{"minItems", was.MinItems, is.MinItems, true},
		{"minProperties", was.MinProperties, is.MinProperties, true},
	} {
		if b.is != nil && (b.was == nil || *b.was != *b.is && (*b.was < *b.is) == b.least) && (!b.least || *b.is > 0) {
			breaks(b.keyword, "now has %s %d%s", b.keyword, *b.is, before(b.was != nil, "%d", deref(b.was)))
		}
	}
	for _, b := range []struct {
		keyword                   string
		was, is                   *float64
		wasExclusive, isExclusive bool
		least                     bool
	}{
		{"maximum", was.Maximum, is.Maximum, was.ExclusiveMaximum, is.ExclusiveMaximum, false},
		{"minimum", was.Minimum, is.Minimum, was.ExclusiveMinimum, is.ExclusiveMinimum, true},
	} {
		if b.is == nil {
			continue
		}
		if b.was == nil || *b.was != *b.is && (*b.was < *b.is) == b.least ||
			*b.was == *b.is && b.isExclusive && !b.wasExclusive {
			breaks(b.keyword, "now has %s %v%s", b.keyword, *b.is, before(b.was != nil, "%v", deref(b.was)))
		}
	}
	if is.MultipleOf != nil && (was.MultipleOf == nil || *was.MultipleOf != *is.MultipleOf) {
		breaks("multipleOf", "must now be a multiple of %v", *is.MultipleOf)
	}
}

// lists compares the merge strategies of lists and maps.
func (c *comparison) lists(at place, was, is *schema) {
	const keyword = "x-kubernetes-list-type"
	before, now := text(was.XListType, "atomic"), text(is.XListType, "atomic")
	switch {
	case before != now && now != "atomic":
		c.say(Error, at.document+"."+keyword, at.field,
			"is now a list of type %s, was %s: duplicate elements are rejected", now, before)
	case before != now:
		c.say(Warning, at.document+"."+keyword, at.field,
			"is now a list of type %s, was %s: applying some elements takes ownership of all of them", now, before)
	case now == "map" && !slices.Equal(was.XListMapKeys, is.XListMapKeys):
		c.say(Error, at.document+".x-kubernetes-list-map-keys", at.field, "now has the keys %v, was %v",
			is.XListMapKeys, was.XListMapKeys)
	}
	if before, now := text(was.XMapType, "granular"), text(is.XMapType, "granular"); before != now {
		c.say(Warning, at.document+".x-kubernetes-map-type", at.field, "is now applied as %s, was %s", now, before)
	}
}

// rules compares CEL rules by their text.
func (c *comparison) rules(at place, was, is *schema) {
	for i, r := range is.XValidations {
		if !slices.ContainsFunc(was.XValidations, func(o apiextensionsv1.ValidationRule) bool {
			return o.Rule == r.Rule
		}) {
			c.say(Warning, fmt.Sprintf("%s.x-kubernetes-validations[%d]", at.document, i), at.field,
				"has a new rule; stored objects were not validated against it: %s", Quoted(r.Rule))
		}
	}
}

// defaults compares default values.
func (c *comparison) defaults(at place, was, is *schema) {
	if was.Default == nil {
		return
	}
	if is.Default == nil {
		c.say(Warning, at.document, at.field,
			"no longer has a default, was %s: objects without the field read differently", was.Default.Raw)
	} else if !bytes.Equal(was.Default.Raw, is.Default.Raw) {
		c.say(Warning, at.document+".default", at.field,
			"now has the default %s, was %s: objects without the field read differently", is.Default.Raw,
			was.Default.Raw)
	}
}

func typeOf(s *schema) string {
	if s.XIntOrString {
		return "int-or-string"
	}
	if s.Type == "" {
		return "any"
	}
	return s.Type
}

// widened reports whether a type allows every value of another type.
func widened(was, is string) bool {
	return is == "any" || was == "integer" && (is == "number" || is == "int-or-string") ||
		was == "string" && is == "int-or-string"
}

func keeps(s *schema) bool { return s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields }

func itemsOf(s *schema) *schema {
	if s.Items == nil {
		return nil
	}
	return s.Items.Schema
}

func valuesOf(s *schema) *schema {
	if s.AdditionalProperties == nil {
		return nil
	}
	if s.AdditionalProperties.Schema == nil && s.AdditionalProperties.Allows {
		return &schema{}
	}
	return s.AdditionalProperties.Schema
}

// before returns the text about the former value of a field that was present.
func before(present bool, format string, args ...any) string {
	if !present {
		return ""
	}
	return fmt.Sprintf(", was "+format, args...)
}

func listed(list []apiextensionsv1.JSON) string {
	texts := make([]string, len(list))
	for i, v := range list {
		texts[i] = string(v.Raw)
	}
	return strings.Join(texts, ", ")
}

func text(s *string, otherwise string) string {
	if s == nil || *s == "" {
		return otherwise
	}
	return *s
}

func deref[T any](p *T) T {
	var none T
	if p == nil {
		return none
	}
	return *p
}
