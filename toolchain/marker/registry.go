package marker

import (
	"fmt"
	"strings"

	"kelson.dev/toolchain/similar"
)

// Registry is a set of definitions. A name can be defined once per target.
type Registry struct {
	exact    map[string][]*Definition
	prefixes []*Definition
	names    []string
	foreign  []string
}

// NewRegistry returns a registry of the definitions. Markers with a foreign prefix belong to other
// tools and are ignored.
func NewRegistry(defs []Definition, foreign ...string) *Registry {
	r := &Registry{exact: map[string][]*Definition{}, foreign: foreign}
	for i := range defs {
		d := &defs[i]
		if prefix, ok := strings.CutSuffix(d.Name, "*"); ok {
			d.Name = prefix
			r.prefixes = append(r.prefixes, d)
			continue
		}
		if r.exact[d.Name] == nil {
			r.names = append(r.names, d.Name)
		}
		r.exact[d.Name] = append(r.exact[d.Name], d)
	}
	return r
}

// lookup finds the definition of a name on a target: by the whole name, or without its last part,
// which it then returns as first. That part is the name of the first argument; if the definition
// has a value instead of arguments, it is a mistake that controller-gen ignores. If the name is
// defined only for other targets, def is nil and elsewhere has those targets.
func (r *Registry) lookup(name string, on Target) (def *Definition, first string, elsewhere Target) {
	try := func(name string, fits func(*Definition) bool) *Definition {
		for _, d := range r.exact[name] {
			if !fits(d) {
				continue
			}
			if d.On&on != 0 {
				return d
			}
			elsewhere |= d.On
		}
		return nil
	}
	if d := try(strings.TrimSuffix(name, ":"), func(*Definition) bool { return true }); d != nil {
		return d, "", 0
	}
	last := strings.LastIndexByte(name, ':')
	if last > 0 {
		if d := try(name[:last], func(d *Definition) bool { return len(d.Args) > 0 }); d != nil {
			return d, name[last+1:], 0
		}
	}
	for _, d := range r.prefixes {
		if strings.HasPrefix(name, d.Name) {
			if d.On&on != 0 {
				return d, "", 0
			}
			elsewhere |= d.On
		}
	}
	if last > 0 && !strings.HasPrefix(name, "k8s:") {
		if d := try(name[:last], func(d *Definition) bool { return d.Value != None }); d != nil {
			return d, name[last+1:], 0
		}
	}
	return nil, "", elsewhere
}

// Parse parses one marker, without its "+". It returns nil and no error for foreign markers and for
// prose. For an invalid marker that controller-gen accepts, it returns both the marker and an
// error.
func (r *Registry) Parse(text string, on Target) (*Marker, error) {
	for _, p := range r.foreign {
		if strings.HasPrefix(text, p) {
			return nil, nil
		}
	}
	call, err := cutCall(text)
	if err != nil {
		return nil, err
	}
	name, rest, assigned := split(call.text)
	name, remark, _ := strings.Cut(name, " ")
	// a space after the colon, which controller-gen skips
	if assigned && strings.HasSuffix(name, ":") {
		name, remark = name+strings.TrimSpace(remark), ""
	}
	def, first, elsewhere := r.lookup(name, on)
	extra := def != nil && first != "" && len(def.Args) == 0
	if extra && !assigned {
		def = nil // also in controller-gen
	}
	switch {
	case def == nil && elsewhere != 0:
		return nil, fmt.Errorf("+%s belongs on %s, not on %s", name, elsewhere, on)
	case def == nil && remark != "":
		return nil, nil // prose that begins with a plus sign
	case def == nil:
		return nil, fmt.Errorf("unknown marker +%s%s", name, suggestion(name, r.names))
	case def.Inert && def.Value == Raw:
		return &Marker{Name: def.Name, Value: rest, Raw: rest}, nil
	case remark != "" && !(strings.HasPrefix(name, "k8s:") && strings.HasPrefix(strings.TrimSpace(remark), "#")):
		return nil, fmt.Errorf("+%s: unexpected %q after the marker", name, remark)
	}
	m := &Marker{Name: def.Name, Raw: strings.TrimSpace(rest)}
	if def.Value == Tag && assigned {
		m.Value, err = r.nested(rest)
	} else {
		m.Value, m.args, err = def.parse(first, rest, assigned)
	}
	if err == nil && (call.given || len(def.Parens) > 0) {
		m.args, m.order, err = def.parens(call)
	}
	if err == nil && extra {
		return m, fmt.Errorf("+%s:%s: unexpected %q in the name; the value belongs after +%s=", def.Name, first, ":"+first, def.Name)
	}
	if err != nil {
		err = fmt.Errorf("+%s %w", def.Name, err)
		if len(m.args) == 0 {
			m = nil
		}
	}
	return m, err
}

// nested parses a marker that is the value of another. It applies to an element, key or field
// inside, so it may be any marker of a field or type.
func (r *Registry) nested(text string) (*Marker, error) {
	inner, ok := strings.CutPrefix(strings.TrimSpace(text), "+")
	if !ok {
		return nil, fmt.Errorf("needs %s as its value, got %q", Tag, text)
	}
	m, err := r.Parse(inner, OnField|OnType)
	if err == nil && m == nil {
		err = fmt.Errorf("needs %s as its value, got %q", Tag, text)
	}
	return m, err
}

// suggestion returns `; did you mean …?` with the most similar name, or "" if none is similar.
func suggestion(name string, names []string) string {
	best, at := "", len(name)/3+2
	for _, n := range names {
		d := similar.Distance(strings.ToLower(name), strings.ToLower(n))
		// the last part is right, but the family is wrong
		if strings.EqualFold(lastPart(name), lastPart(n)) {
			d = min(d, 2)
			if family, _, _ := strings.Cut(name, ":"); strings.HasPrefix(n, family+":") {
				d = min(d, 1)
			}
		}
		if d < at || d == at && best != "" && n < best {
			best, at = n, d
		}
	}
	if best == "" {
		return ""
	}
	if strings.Contains(best, ":") || len(names) > 30 {
		best = "+" + best
	}
	return "; did you mean " + best + "?"
}

func lastPart(name string) string { return name[strings.LastIndexByte(name, ':')+1:] }
