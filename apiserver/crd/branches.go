package crd

import (
	"errors"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// maxBranches limits how many schemas the values of one object are validated against, beyond one
// for each value: the alternatives of anyOf and oneOf, the parts of allOf, and not. The library
// makes a validator for each, which takes about 3 µs, and no request can cancel it: 80,000 numbers
// against 3,000 alternatives take minutes. The limit corresponds to one or two seconds. IntOrString
// takes two for each value.
const maxBranches = 500_000

// errBranches is the error for an object beyond maxBranches.
var errBranches = errors.New("validating against the alternatives of the schema takes too long")

const (
	// freeRules is the number of rules of one schema that count as nothing: elements of enum,
	// required properties, and properties, all of which the library checks for each value.
	freeRules = 64
	// rulesPerBranch is how many rules take as long as a schema.
	rulesPerBranch = 16
)

// branches has the shape of a schema, without the parts that need only one schema for each value.
type branches struct {
	own        int64                // for the value itself
	properties map[string]*branches // for its members
	additional *branches            // for members that are not in properties
	items      *branches
	// the parts of allOf and the others that have branches for members or elements
	junctors []*branches
}

// branchesOf returns the branches of a schema, or nil if it has none.
func branchesOf(s *spec.Schema) *branches {
	if s == nil {
		return nil
	}
	b := &branches{}
	if rules := len(s.Enum) + len(s.Required) + len(s.Properties); rules > freeRules {
		b.own = int64(rules / rulesPerBranch)
	}
	for name := range s.Properties {
		property := s.Properties[name]
		if in := branchesOf(&property); in != nil {
			if b.properties == nil {
				b.properties = map[string]*branches{}
			}
			b.properties[name] = in
		}
	}
	if s.AdditionalProperties != nil {
		b.additional = branchesOf(s.AdditionalProperties.Schema)
	}
	if s.Items != nil {
		b.items = branchesOf(s.Items.Schema)
	}
	for _, list := range [][]spec.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range list {
			b.junction(&list[i])
		}
	}
	if s.Not != nil {
		b.junction(s.Not)
	}
	if b.own == 0 && !b.nested() {
		return nil
	}
	return b
}

// junction adds a schema that the value must be validated against, too.
func (b *branches) junction(s *spec.Schema) {
	b.own++
	in := branchesOf(s)
	// Members are validated against a schema each, which the schema outside of s does not count.
	in = withMembers(in, s)
	if in == nil {
		return
	}
	b.own += in.own
	in.own = 0
	if in.nested() {
		b.junctors = append(b.junctors, in)
	}
}

// withMembers adds to the branches of a part of a junction one for each member or element that it
// validates.
func withMembers(in *branches, s *spec.Schema) *branches {
	if len(s.Properties) == 0 && s.AdditionalProperties == nil && s.Items == nil {
		return in
	}
	if in == nil {
		in = &branches{}
	}
	one := func(b *branches) *branches {
		if b == nil {
			b = &branches{}
		}
		b.own++
		return b
	}
	for name := range s.Properties {
		if in.properties == nil {
			in.properties = map[string]*branches{}
		}
		in.properties[name] = one(in.properties[name])
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		in.additional = one(in.additional)
	}
	if s.Items != nil && s.Items.Schema != nil {
		in.items = one(in.items)
	}
	return in
}

// nested reports whether members or elements have branches.
func (b *branches) nested() bool {
	return b.properties != nil || b.additional != nil || b.items != nil || b.junctors != nil
}

// check returns errBranches for an object beyond the limit. It takes no longer than visiting as
// many values as the limit. A nil b has no branches.
func (b *branches) check(object any) error {
	if left := int64(maxBranches); b != nil && !b.visit(object, &left) {
		return errBranches
	}
	return nil
}

// visit subtracts the branches of a value from left, and returns false if none are left.
func (b *branches) visit(value any, left *int64) bool {
	if *left -= b.own * effort(value); *left < 0 {
		return false
	}
	switch v := value.(type) {
	case map[string]any:
		if b.properties == nil && b.additional == nil {
			break
		}
		for name, member := range v {
			in := b.properties[name]
			if in == nil {
				in = b.additional
			}
			if in != nil && !in.visit(member, left) {
				return false
			}
		}
	case []any:
		if b.items == nil {
			break
		}
		for _, element := range v {
			if !b.items.visit(element, left) {
				return false
			}
		}
	}
	for _, in := range b.junctors {
		if *left -= effort(value); *left < 0 || !in.visit(value, left) {
			return false
		}
	}
	return true
}

const (
	// membersPerBranch is how many members of an object take as long as a schema: each schema looks
	// at all of them.
	membersPerBranch = 16
	// textPerBranch is how many bytes of a string take as long as a schema, to count its characters
	// or to check a format.
	textPerBranch = 4 << 10
)

// effort returns how many times as long as for a number it takes to validate a value against one
// schema, without its members or elements.
func effort(value any) int64 {
	switch v := value.(type) {
	case map[string]any:
		return 1 + int64(len(v)/membersPerBranch)
	case string:
		return 1 + int64(len(v)/textPerBranch)
	}
	return 1
}

// work limits the time that validating an object takes. nil is a schema whose validation needs no
// limit.
type work struct {
	branches *branches
	patterns *patterns
}

func workOf(s *spec.Schema) *work {
	w := &work{branchesOf(s), patternsOf(s)}
	if w.branches == nil && w.patterns == nil {
		return nil
	}
	return w
}

// check returns the error for an object that takes too long to validate.
func (w *work) check(object any) error {
	if w == nil {
		return nil
	}
	if err := w.branches.check(object); err != nil {
		return err
	}
	return w.patterns.check(object)
}
