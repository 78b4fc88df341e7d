package vet

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// RuleLimit limits the estimated cost of one rule. Source: Kubernetes' validation of
// CustomResourceDefinitions.
const RuleLimit = validation.StaticEstimatedCostLimit

// Rule is a CEL rule of a definition with its worst-case cost, in CEL cost units.
type Rule struct {
	File       string `json:"file"`
	Line       int    `json:"line,omitempty"`
	Definition string `json:"definition"`
	Version    string `json:"version"`
	// Path is the path of the field with the rule, as in spec.items[].name.
	Path string `json:"path"`
	Rule string `json:"rule"`
	Cost uint64 `json:"cost"`
	// Missing lists bounds that would make an expensive rule cheaper, the most effective first.
	Missing []Bound `json:"missing,omitempty"`
}

// Bound is a bound that is missing in a schema.
type Bound struct {
	// Path is the path of the field.
	Path string `json:"path"`
	// Keyword is maxItems, maxProperties or maxLength.
	Keyword string `json:"keyword"`
	// Cost is the cost of the rule if the bound were ten.
	Cost uint64 `json:"cost"`
}

func (b Bound) String() string { return b.Keyword + " of " + b.Path }

// expensive is the cost above which Costs looks for missing bounds: a tenth of the limit.
const expensive = RuleLimit / 10

// Costs estimates the rules of a definition as an API server does. A rule that does not compile has
// cost 0; the server reports its error.
func Costs(d Definition) []Rule {
	env := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	var rules []Rule
	for i, v := range d.Spec.Versions {
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		root := &apiextensions.JSONSchemaProps{}
		if apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, root,
			nil) != nil {
			continue
		}
		est := &estimate{env: env, root: root}
		at := fmt.Sprintf("spec.versions[%d].schema.openAPIV3Schema", i)
		est.walk(nil, root, func(where location, s *apiextensions.JSONSchemaProps) {
			for n, cost := range est.costs(where) {
				r := Rule{
					File: d.File, Line: d.Line(fmt.Sprintf("%s%s.x-kubernetes-validations[%d]", at, where.inSchema(),
						n)),
					Definition: d.Name, Version: v.Name, Path: where.String(), Rule: s.XValidations[n].Rule, Cost: cost,
				}
				if cost > expensive {
					r.Missing = est.missing(where, s, n, cost)
				}
				rules = append(rules, r)
			}
		})
	}
	return rules
}

// advice returns findings about expensive rules. The server reports that a rule is too expensive;
// advice reports how to make it cheaper.
func advice(d Definition, rules []Rule) []Finding {
	var findings []Finding
	for _, r := range rules {
		if r.Cost <= expensive || len(r.Missing) == 0 {
			continue
		}
		bounds := make([]string, 0, 3)
		for _, b := range r.Missing[:min(3, len(r.Missing))] {
			bounds = append(bounds, b.String())
		}
		findings = append(findings, Finding{
			Severity: Warning, File: r.File, Line: r.Line, Object: d.Title(), Path: r.Path,
			Message: fmt.Sprintf("the rule %s may cost %s the limit of one rule; bounds that would reduce it: %s",
				Quoted(r.Rule), relative(r.Cost), strings.Join(bounds, ", ")),
		})
	}
	return findings
}

// relative formats a cost as words before "the limit", such as "3 times".
func relative(cost uint64) string {
	if share := Share(cost); strings.HasSuffix(share, "%") {
		return share + " of"
	}
	return Share(cost)
}

// Share formats a cost as a share of the limit of one rule.
func Share(cost uint64) string {
	switch part := float64(cost) / RuleLimit; {
	case part >= 1000:
		return "more than 1000 times"
	case part >= 10:
		return fmt.Sprintf("%.0f times", part)
	case part >= 1:
		return fmt.Sprintf("%.1f times", part)
	default:
		return fmt.Sprintf("%.1f %%", 100*part)
	}
}

// Quoted returns a rule on one line, shortened and in quotes.
func Quoted(rule string) string {
	const most = 80
	rule = strings.Join(strings.Fields(rule), " ")
	if len(rule) > most {
		rule = strings.ToValidUTF8(rule[:most], "") + "…"
	}
	return "`" + rule + "`"
}

// step leads from a schema to a nested schema.
type step struct {
	kind stepKind
	name string // of a property
}

type stepKind int

const (
	property stepKind = iota
	items
	values // of a map
)

// location is a path from the root of a schema.
type location []step

func (l location) String() string {
	var b strings.Builder
	for _, s := range l {
		switch s.kind {
		case property:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.name)
		case items:
			b.WriteString("[]")
		case values:
			b.WriteString("[*]")
		}
	}
	return b.String()
}

// inSchema returns the path in the document.
func (l location) inSchema() string {
	var b strings.Builder
	for _, s := range l {
		switch s.kind {
		case property:
			fmt.Fprintf(&b, ".properties[%s]", s.name)
		case items:
			b.WriteString(".items")
		case values:
			b.WriteString(".additionalProperties")
		}
	}
	return b.String()
}

func (l location) to(s step) location { return append(slices.Clone(l), s) }

// estimate computes the costs of the rules of one version.
type estimate struct {
	env  *environment.EnvSet
	root *apiextensions.JSONSchemaProps
}

// walk visits every schema.
func (e *estimate) walk(at location, s *apiextensions.JSONSchemaProps,
	visit func(location, *apiextensions.JSONSchemaProps)) {
	visit(at, s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		e.walk(at.to(step{property, name}), &p, visit)
	}
	if s.Items != nil && s.Items.Schema != nil {
		e.walk(at.to(step{kind: items}), s.Items.Schema, visit)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		e.walk(at.to(step{kind: values}), s.AdditionalProperties.Schema, visit)
	}
}

// costs returns the costs of the rules at a location, in their order.
func (e *estimate) costs(at location) []uint64 {
	s, ctx := e.root, validation.RootCELContext(e.root)
	for _, st := range at {
		switch st.kind {
		case property:
			p := s.Properties[st.name]
			s = &p
			ctx = ctx.ChildPropertyContext(s, st.name)
		case items:
			s = s.Items.Schema
			ctx = ctx.ChildItemsContext(s)
		case values:
			s = s.AdditionalProperties.Schema
			ctx = ctx.ChildAdditionalPropertiesContext(s)
		}
	}
	if len(s.XValidations) == 0 {
		return nil
	}
	costs := make([]uint64, len(s.XValidations))
	info, err := ctx.TypeInfo()
	if err != nil || info == nil {
		return costs
	}
	compiled, err := cel.Compile(info.Schema, info.DeclType, celconfig.PerCallLimit, e.env,
		cel.NewExpressionsEnvLoader())
	if err != nil {
		return costs
	}
	for i, c := range compiled {
		times := c.MaxCardinality
		if ctx.MaxCardinality != nil {
			times = *ctx.MaxCardinality
		}
		costs[i] = product(c.MaxCost, times)
	}
	return costs
}

func product(a, b uint64) uint64 {
	if a != 0 && b > math.MaxUint64/a {
		return math.MaxUint64
	}
	return a * b
}

// missing computes the cost of a rule with a bound, for each unbounded list, map and string above
// and below it.
func (e *estimate) missing(at location, s *apiextensions.JSONSchemaProps, rule int, cost uint64) []Bound {
	var found []Bound
	try := func(where location, s *apiextensions.JSONSchemaProps) {
		keyword, bound := unbounded(s)
		if bound == nil {
			return
		}
		e.change(where, bound)
		if less := e.costs(at)[rule]; less < cost-cost/100 {
			found = append(found, Bound{Path: where.String(), Keyword: keyword, Cost: less})
		}
		e.change(where, func(s *apiextensions.JSONSchemaProps) {
			s.MaxItems, s.MaxProperties, s.MaxLength = nil, nil, nil
		})
	}
	above := e.root
	for i, st := range at {
		try(at[:i], above)
		above = within(above, st)
	}
	e.walk(at, s, try)
	slices.SortStableFunc(found, func(a, b Bound) int { return cmp.Compare(a.Cost, b.Cost) })
	return found
}

// unbounded returns the bound that is missing in a schema and a function that sets it, or nil if
// the schema has its bound.
func unbounded(s *apiextensions.JSONSchemaProps) (string, func(*apiextensions.JSONSchemaProps)) {
	ten := int64(10)
	switch {
	case s.MaxItems != nil || s.MaxProperties != nil || s.MaxLength != nil:
	case s.Type == "array":
		return "maxItems", func(s *apiextensions.JSONSchemaProps) { s.MaxItems = &ten }
	case s.Type == "object" && s.AdditionalProperties != nil:
		return "maxProperties", func(s *apiextensions.JSONSchemaProps) { s.MaxProperties = &ten }
	case s.Type == "string" && len(s.Enum) == 0:
		return "maxLength", func(s *apiextensions.JSONSchemaProps) { s.MaxLength = &ten }
	}
	return "", nil
}

// within returns the schema one step further.
func within(s *apiextensions.JSONSchemaProps, st step) *apiextensions.JSONSchemaProps {
	switch st.kind {
	case items:
		return s.Items.Schema
	case values:
		return s.AdditionalProperties.Schema
	default:
		p := s.Properties[st.name]
		return &p
	}
}

// change applies a function to the schema at a location.
func (e *estimate) change(at location, how func(*apiextensions.JSONSchemaProps)) {
	change(e.root, at, how)
}

func change(s *apiextensions.JSONSchemaProps, at location, how func(*apiextensions.JSONSchemaProps)) {
	if len(at) == 0 {
		how(s)
		return
	}
	next := within(s, at[0])
	change(next, at[1:], how)
	if at[0].kind == property {
		s.Properties[at[0].name] = *next // maps hold copies
	}
}
