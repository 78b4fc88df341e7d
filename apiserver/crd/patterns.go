package crd

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// Matching a pattern takes up to one step for each instruction of the compiled pattern and each
// byte of the value. A step of the worst patterns takes about 25 ns. Kubernetes has no limit: a
// pattern of a thousand optional parts takes seconds on a value of 64 KB, and no request can cancel
// it.
const (
	// maxValueSteps limits one value, to less than half a second. Patterns of names, quantities and
	// addresses have 10 to 1,000 instructions, which allows values of 16 KB to 1.6 MB.
	maxValueSteps = 16 << 20
	// freeSteps is the number of steps for all values of an object that need no measurement. Beyond
	// it, the time of matching is measured, because most patterns reject or accept long before the
	// worst case.
	freeSteps = 64 << 20
	// maxMatching limits the measured time.
	maxMatching = time.Second
)

// errMatching is the error for an object whose values together take too long to match.
var errMatching = errors.New("matching the patterns of the schema takes too long")

// affordable refuses objects that would take too long to validate.
type affordable struct {
	validation.SchemaValidator
	work *work
}

func (v affordable) Validate(object any, options ...validation.ValidationOption) *validate.Result {
	if err := v.work.check(object); err != nil {
		return &validate.Result{Errors: []error{err}}
	}
	return v.SchemaValidator.Validate(object, options...)
}

// ValidateUpdate allows values that the old object already had, so that objects from before a
// change of the schema can still be updated.
func (v affordable) ValidateUpdate(object, old any, options ...validation.ValidationOption) *validate.Result {
	if err := v.work.check(object); err != nil && v.work.check(old) == nil {
		return &validate.Result{Errors: []error{err}}
	}
	return v.SchemaValidator.ValidateUpdate(object, old, options...)
}

// patterns has the shape of a schema, without the parts that have no patterns.
type patterns struct {
	match        *regexp.Regexp // pattern of the value itself; nil: none
	instructions int64          // of match
	properties   map[string]*patterns
	additional   *patterns // patterns of members that are not in properties
	items        *patterns
	junctors     []*patterns // allOf, anyOf, oneOf, not
}

// patternsOf returns the patterns of a schema, or nil if it has none.
func patternsOf(s *spec.Schema) *patterns {
	if s == nil {
		return nil
	}
	p := &patterns{}
	found := false
	add := func(part *spec.Schema) *patterns {
		in := patternsOf(part)
		found = found || in != nil
		return in
	}
	if s.Pattern != "" {
		found = p.compile(s.Pattern)
	}
	for name, property := range s.Properties {
		if in := add(&property); in != nil {
			if p.properties == nil {
				p.properties = map[string]*patterns{}
			}
			p.properties[name] = in
		}
	}
	if s.AdditionalProperties != nil {
		p.additional = add(s.AdditionalProperties.Schema)
	}
	if s.Items != nil {
		p.items = add(s.Items.Schema)
	}
	for _, list := range [][]spec.Schema{s.AllOf, s.AnyOf, s.OneOf} {
		for i := range list {
			if in := add(&list[i]); in != nil {
				p.junctors = append(p.junctors, in)
			}
		}
	}
	if in := add(s.Not); in != nil {
		p.junctors = append(p.junctors, in)
	}
	if !found {
		return nil
	}
	return p
}

// compile compiles a pattern and reports whether it is valid. The library reports the errors of
// invalid ones.
func (p *patterns) compile(pattern string) bool {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return false
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return false
	}
	p.instructions = int64(len(prog.Inst))
	p.match, err = regexp.Compile(pattern)
	return err == nil
}

// matching counts the work on the patterns of one object.
type matching struct {
	steps int64
	took  time.Duration // for what exceeds freeSteps
}

// check returns the error for an object that takes too long to match. A nil p has no patterns.
func (p *patterns) check(object any) error {
	if p == nil {
		return nil
	}
	at, err := p.visit(object, &matching{})
	var long tooLong
	if errors.As(err, &long) {
		return openapierrors.TooLong(at, "", int64(long), "")
	}
	return err
}

// tooLong is the error of a value with more than the given number of bytes.
type tooLong int64

func (tooLong) Error() string { return "too long" }

// visit returns the error of a value that exceeds a limit, with its path.
func (p *patterns) visit(value any, m *matching) (at string, err error) {
	switch v := value.(type) {
	case string:
		if p.match != nil {
			err = p.add(v, m)
		}
	case map[string]any:
		for name, member := range v {
			in := p.properties[name]
			if in == nil {
				in = p.additional
			}
			if in == nil {
				continue
			}
			if at, err = in.visit(member, m); err != nil {
				return "." + name + at, err
			}
		}
	case []any:
		if p.items == nil {
			break
		}
		for i, item := range v {
			if at, err = p.items.visit(item, m); err != nil {
				return fmt.Sprintf("[%d]%s", i, at), err
			}
		}
	}
	for _, in := range p.junctors {
		if err == nil {
			at, err = in.visit(value, m)
		}
	}
	return at, err
}

// add adds the work of matching one value.
func (p *patterns) add(value string, m *matching) error {
	steps := p.instructions * int64(len(value))
	if steps > maxValueSteps {
		return tooLong(maxValueSteps / p.instructions)
	}
	if m.steps += steps; m.steps <= freeSteps {
		return nil
	}
	start := time.Now()
	p.match.MatchString(value)
	if m.took += time.Since(start); m.took > maxMatching {
		return errMatching
	}
	return nil
}
