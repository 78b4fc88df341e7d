package vet

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Compare says which changes of definitions break objects that are stored, or clients that were written for what was before: an [Error] for
// what does, a [Warning] for what may. Additions that leave alone what was there are not mentioned. It goes by the definitions alone: stored
// objects may happen not to have what is no longer allowed. A value that has become invalid may stay as long as it is not changed, since API
// servers ratchet validation; it can't be written anew.
func Compare(before, after []Definition) []Finding {
	c := &comparison{}
	for _, old := range before {
		i := slices.IndexFunc(after, func(d Definition) bool { return d.Name == old.Name })
		if i < 0 {
			c.findings = append(c.findings, Finding{
				Severity: Error, File: old.File, Line: 0, Object: old.Title(), Message: "the definition is gone, and with it all stored objects of the kind",
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
		Severity: s, File: c.now.File, Line: c.now.Line(place), Object: c.now.Title(), Path: path, Message: fmt.Sprintf(format, args...),
	})
}

func (c *comparison) definition(old, now Definition) {
	c.now = now
	if old.Spec.Scope != now.Spec.Scope {
		c.say(Error, "spec.scope", "spec.scope", "was %s: clients and stored objects have other paths; an API server refuses the change", old.Spec.Scope)
	}
	if old.Spec.Names.Kind != now.Spec.Names.Kind {
		c.say(Error, "spec.names.kind", "spec.names.kind", "was %s: clients don't know the new name", old.Spec.Names.Kind)
	}
	for _, name := range old.Spec.Names.ShortNames {
		if !slices.Contains(now.Spec.Names.ShortNames, name) {
			c.say(Warning, "spec.names", "spec.names.shortNames", "%q is gone: commands that use it fail", name)
		}
	}
	stored := func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage }
	for _, was := range old.Spec.Versions {
		i := slices.IndexFunc(now.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == was.Name })
		if i < 0 {
			if was.Storage {
				c.say(Error, "spec.versions", "spec.versions", "%s is gone, in which objects are stored: an API server refuses that while status.storedVersions names it", was.Name)
			} else if was.Served {
				c.say(Error, "spec.versions", "spec.versions", "%s is gone: clients of it fail; stop serving it first, after objects were migrated", was.Name)
			}
			continue
		}
		c.version(i, was, now.Spec.Versions[i])
	}
	wasStored, isStored := slices.IndexFunc(old.Spec.Versions, stored), slices.IndexFunc(now.Spec.Versions, stored)
	if wasStored >= 0 && isStored >= 0 && old.Spec.Versions[wasStored].Name != now.Spec.Versions[isStored].Name {
		c.say(Warning, fmt.Sprintf("spec.versions[%d].storage", isStored), fmt.Sprintf("spec.versions[%d].storage", isStored),
			"objects are stored in %s from now on: those from before stay in %s until they are written", now.Spec.Versions[isStored].Name, old.Spec.Versions[wasStored].Name)
	}
	if strategy(old) == apiextensionsv1.WebhookConverter && strategy(now) != apiextensionsv1.WebhookConverter && len(now.Spec.Versions) > 1 {
		c.say(Error, "spec.conversion", "spec.conversion", "versions are no longer converted: objects lose what the other version calls otherwise")
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
		c.say(Error, at+".served", is.Name, "is no longer served: clients of it fail")
	}
	if is.Deprecated && !was.Deprecated {
		c.say(Warning, at+".deprecated", is.Name, "is deprecated: clients of it are warned")
	}
	c.subresources(at+".subresources", is.Name, was.Subresources, is.Subresources)
	for _, f := range was.SelectableFields {
		if !slices.Contains(is.SelectableFields, f) {
			c.say(Error, at, is.Name, "%s is no longer selectable: clients that select by it fail", f.JSONPath)
		}
	}
	old, now := schemaOf(was), schemaOf(is)
	switch {
	case old == nil && now != nil:
		c.say(Warning, at+".schema", is.Name, "has a schema now, by which stored objects were not checked")
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
		c.say(Error, at, version, "the subresource status is gone: clients that write it fail")
	case was.Status == nil && is.Status != nil:
		c.say(Error, at, version, "status has a subresource of its own now: what clients write to it with the object is dropped")
	}
	switch {
	case was.Scale != nil && is.Scale == nil:
		c.say(Error, at, version, "the subresource scale is gone: autoscalers and kubectl scale fail")
	case was.Scale != nil && (was.Scale.SpecReplicasPath != is.Scale.SpecReplicasPath || was.Scale.StatusReplicasPath != is.Scale.StatusReplicasPath):
		c.say(Warning, at+".scale", version, "scale reads and writes other fields than before")
	}
}

// place is a schema's, in the document and as one speaks of it.
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

// schema compares what was allowed with what is.
func (c *comparison) schema(at place, was, is *schema) {
	breaks := func(keyword, format string, args ...any) {
		c.say(Error, at.document+"."+keyword, at.field, format, args...)
	}
	if before, now := typeOf(was), typeOf(is); before != now && !widened(before, now) {
		breaks("type", "is %s now, was %s", now, before)
		return
	}
	if was.Nullable && !is.Nullable {
		breaks("nullable", "may no longer be null")
	}
	if keeps(was) && !keeps(is) {
		breaks("x-kubernetes-preserve-unknown-fields", "fields that are not in the schema are dropped now")
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
		breaks("properties", "is no longer a map with any keys: others than those of the schema are dropped")
	}
}

// members compares an object's fields.
func (c *comparison) members(at place, was, is *schema) {
	for _, name := range slices.Sorted(maps.Keys(was.Properties)) {
		before := was.Properties[name]
		now, there := is.Properties[name]
		switch {
		case there:
			c.schema(at.property(name), &before, &now)
		case valuesOf(is) != nil || keeps(is):
		default:
			c.say(Error, at.document+".properties", at.property(name).field, "is gone: clients that write it are refused or ignored, and stored values are dropped")
		}
	}
	for _, name := range is.Required {
		if slices.Contains(was.Required, name) {
			continue
		}
		if p, ok := is.Properties[name]; ok && p.Default != nil {
			continue
		}
		c.say(Error, at.document+".required", at.property(name).field, "is required now: objects without it are refused")
	}
}

// bounds compares what restricts a value.
func (c *comparison) bounds(at place, was, is *schema) {
	breaks := func(keyword, format string, args ...any) {
		c.say(Error, at.document+"."+keyword, at.field, format, args...)
	}
	if len(is.Enum) > 0 {
		if len(was.Enum) == 0 {
			breaks("enum", "must be one of %s now", listed(is.Enum))
		}
		for _, v := range was.Enum {
			if !slices.ContainsFunc(is.Enum, func(w apiextensionsv1.JSON) bool { return bytes.Equal(v.Raw, w.Raw) }) {
				breaks("enum", "may no longer be %s", v.Raw)
			}
		}
	}
	if is.Pattern != "" && is.Pattern != was.Pattern {
		breaks("pattern", "must match %q now%s", is.Pattern, before(was.Pattern != "", "%q", was.Pattern))
	}
	if is.Format != "" && is.Format != was.Format {
		breaks("format", "must have the format %s now%s", is.Format, before(was.Format != "", "%s", was.Format))
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
			breaks(b.keyword, "has %s %d now%s", b.keyword, *b.is, before(b.was != nil, "%d", deref(b.was)))
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
		if b.was == nil || *b.was != *b.is && (*b.was < *b.is) == b.least || *b.was == *b.is && b.isExclusive && !b.wasExclusive {
			breaks(b.keyword, "has %s %v now%s", b.keyword, *b.is, before(b.was != nil, "%v", deref(b.was)))
		}
	}
	if is.MultipleOf != nil && (was.MultipleOf == nil || *was.MultipleOf != *is.MultipleOf) {
		breaks("multipleOf", "must be a multiple of %v now", *is.MultipleOf)
	}
}

// lists compares how lists and maps are merged.
func (c *comparison) lists(at place, was, is *schema) {
	const keyword = "x-kubernetes-list-type"
	before, now := text(was.XListType, "atomic"), text(is.XListType, "atomic")
	switch {
	case before != now && now != "atomic":
		c.say(Error, at.document+"."+keyword, at.field, "is a list of type %s now, was %s: elements that stand there twice are refused", now, before)
	case before != now:
		c.say(Warning, at.document+"."+keyword, at.field, "is a list of type %s now, was %s: who applies some elements owns all of them", now, before)
	case now == "map" && !slices.Equal(was.XListMapKeys, is.XListMapKeys):
		c.say(Error, at.document+".x-kubernetes-list-map-keys", at.field, "has the keys %v now, was %v", is.XListMapKeys, was.XListMapKeys)
	}
	if before, now := text(was.XMapType, "granular"), text(is.XMapType, "granular"); before != now {
		c.say(Warning, at.document+".x-kubernetes-map-type", at.field, "is applied as %s now, was %s", now, before)
	}
}

// rules compares CEL rules by their text.
func (c *comparison) rules(at place, was, is *schema) {
	for i, r := range is.XValidations {
		if !slices.ContainsFunc(was.XValidations, func(o apiextensionsv1.ValidationRule) bool { return o.Rule == r.Rule }) {
			c.say(Warning, fmt.Sprintf("%s.x-kubernetes-validations[%d]", at.document, i), at.field, "has a new rule, by which stored objects were not checked: %s", Quoted(r.Rule))
		}
	}
}

// defaults compares what stands where nothing is said.
func (c *comparison) defaults(at place, was, is *schema) {
	if was.Default == nil {
		return
	}
	if is.Default == nil {
		c.say(Warning, at.document, at.field, "has no default any more, was %s: objects that don't say it are read otherwise", was.Default.Raw)
	} else if !bytes.Equal(was.Default.Raw, is.Default.Raw) {
		c.say(Warning, at.document+".default", at.field, "has the default %s now, was %s: objects that don't say it are read otherwise", is.Default.Raw, was.Default.Raw)
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

// widened says whether a type allows all that another did.
func widened(was, is string) bool {
	return is == "any" || was == "integer" && (is == "number" || is == "int-or-string") || was == "string" && is == "int-or-string"
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

func before(there bool, format string, args ...any) string {
	if !there {
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
