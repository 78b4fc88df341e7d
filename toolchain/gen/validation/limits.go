package validation

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"kelson.dev/toolchain/marker"
)

// word returns the text after the marker's = up to a remark.
func word(m *marker.Marker) string {
	text, _, _ := strings.Cut(m.Raw, "#")
	return strings.TrimSpace(text)
}

// limit returns the rule of a maximum or minimum of a number, string, list or map.
func (rc *ruleCompiler) limit(p place, m *marker.Marker) (rules, error) {
	name := strings.TrimPrefix(m.Name, "k8s:")
	fn := strings.ToUpper(name[:1]) + name[1:]
	if name == "minimum" || name == "maximum" {
		n, err := integer(p.typ, word(m))
		if err != nil {
			return rules{}, err
		}
		return one(rc.code.lib(fn, n)), nil
	}
	n, _ := m.Value.(int64)
	if n < 0 {
		return rules{}, fmt.Errorf("must not be negative")
	}
	c := rc.code.lib(fn, strconv.FormatInt(n, 10))
	switch name[3:] {
	case "Items":
		if !isSlice(p.typ) {
			return rules{}, fmt.Errorf("applies to lists, not to %s", p.typ)
		}
		c.short = name == "maxItems"
	case "Properties":
		if !isMap(p.typ) {
			return rules{}, fmt.Errorf("applies to maps, not to %s", p.typ)
		}
		if n > 100000 {
			return rules{}, fmt.Errorf("must not exceed 100000")
		}
		c.short = name == "maxProperties"
	default:
		if basic(p.typ) != "string" {
			return rules{}, fmt.Errorf("applies to strings, not to %s", p.typ)
		}
		if name == "minLength" && n == 0 {
			return rules{}, nil
		}
	}
	return one(c), nil
}

// formats are the functions of the formats.
var formats = map[string]string{
	"k8s-extended-resource-name":        "ExtendedResourceName",
	"k8s-label-key":                     "LabelKey",
	"k8s-label-value":                   "LabelValue",
	"k8s-long-name":                     "LongName",
	"k8s-long-name-caseless":            "LongNameCaseless",
	"k8s-path-segment-name":             "PathSegmentName",
	"k8s-prefixed-label-key":            "PrefixedLabelKey",
	"k8s-resource-fully-qualified-name": "ResourceFullyQualifiedName",
	"k8s-resource-pool-name":            "ResourcePoolName",
	"k8s-short-name":                    "ShortName",
	"k8s-uuid":                          "UUID",
}

func (rc *ruleCompiler) format(p place, m *marker.Marker) (rules, error) {
	if basic(p.typ) != "string" {
		return rules{}, fmt.Errorf("applies to strings, not to %s", p.typ)
	}
	fn, ok := formats[m.Text()]
	if !ok {
		return rules{}, fmt.Errorf("has the unknown format %q", m.Text())
	}
	return one(rc.code.lib(fn)), nil
}

var neqValue = regexp.MustCompile("^(\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`|[^ #]*)\\s*(?:#.*)?$")

func (rc *ruleCompiler) neq(p place, m *marker.Marker) (rules, error) {
	match := neqValue.FindStringSubmatch(strings.TrimSpace(m.Raw))
	if match == nil {
		return rules{}, fmt.Errorf("has the malformed value %s", m.Raw)
	}
	text, quoted := match[1], false
	if s, err := strconv.Unquote(text); err == nil {
		text, quoted = s, true
	}
	if quoted != (basic(p.typ) == "string") && text != "" &&
		!(basic(p.typ) == "string" && regexp.MustCompile(`^[A-Za-z_]`).MatchString(text)) {
		return rules{}, fmt.Errorf("%s is not a value of %s", m.Raw, p.typ)
	}
	value, err := literal(p.typ, text)
	if err != nil {
		return rules{}, err
	}
	return one(rc.code.lib("NEQ", value)), nil
}
