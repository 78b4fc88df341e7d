package validation

import (
	"fmt"
	"slices"
	"strings"

	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
)

// lastElement returns the last name of a path, with the keys of an element.
func lastElement(path string) string {
	head, keys, _ := strings.Cut(path, "[")
	if keys != "" {
		keys = "[" + keys
	}
	return head[strings.LastIndexByte(head, '.')+1:] + keys
}

// unionRule returns the check of the union that a marker's value is a member of, at its first
// member.
func (rc *ruleCompiler) unionRule(p place, m *marker.Marker) (rules, error) {
	if p.scope == onElement && p.selector == nil {
		return rules{}, fmt.Errorf("cannot apply to all elements; use +k8s:item")
	}
	if p.field != nil {
		if _, err := rc.isSet(p.parent, p.field); err != nil {
			return rules{}, err
		}
	}
	key := unionKey(m.Name, p.parentPath, m.String("union"))
	u := rc.meta.unions[key]
	if u == nil || rc.checked[key] {
		return rules{}, nil
	}
	rc.checked[key] = true
	var members, extractors []string
	for _, mem := range u.members {
		var set string
		if mem.field != nil {
			var err error
			if set, err = rc.isSet(p.parent, mem.field); err != nil {
				return rules{}, err
			}
		} else {
			set = fmt.Sprintf("func(list %s) bool {\nfor i := range list {\nif %s {\nreturn true\n}\n}\nreturn false\n}", rc.code.Type(p.parent), matches("list[i]", mem.terms))
		}
		extractors = append(extractors, set)
		members = append(members, rc.newMember(u, mem))
	}
	fn, args := "Union", extractors
	if m.Name == "k8s:zeroOrOneOfMember" {
		fn = "ZeroOrOneOfUnion"
	}
	create := "$validate.NewUnionMembership"
	if u.discriminator != nil && fn == "Union" {
		if basic(u.discriminator.Type()) != "string" {
			return rules{}, fmt.Errorf("needs a string as its discriminator, not %s", u.discriminator.Type())
		}
		fn, create = "DiscriminatedUnion", "$validate.NewDiscriminatedUnionMembership"
		members = slices.Insert(members, 0, fmt.Sprintf("%q", jsonName(u.discriminator)))
		args = slices.Insert(slices.Clone(extractors), 0, rc.discriminatorValue(p.parent, u))
	}
	name := rc.code.variable(fmt.Sprintf("%sOf_%s_%s", strings.TrimSuffix(strings.TrimPrefix(m.Name, "k8s:"), "Member"),
		p.parentPath[strings.LastIndexByte(p.parentPath, '/')+1:],
		m.String("union")), rc.code.Expanded(create, nil)+"("+strings.Join(members, ", ")+")")
	return rules{parent: []call{rc.code.lib(fn, slices.Insert(args, 0, name)...)}}, nil
}

func (rc *ruleCompiler) newMember(u *union, m member) string {
	if u.discriminator != nil {
		return rc.code.Expanded("$validate.NewDiscriminatedUnionMember", nil) + fmt.Sprintf("(%q, %q)", m.name, m.value)
	}
	return rc.code.Expanded("$validate.NewUnionMember", nil) + fmt.Sprintf("(%q)", m.name)
}

// discriminatorValue returns the function that returns the value of the discriminator.
func (rc *ruleCompiler) discriminatorValue(owner loader.Type, u *union) string {
	f := u.discriminator
	if isPointer(f.Type()) {
		return fmt.Sprintf("func(obj %s) string {\nif obj == nil || obj.%s == nil {\nreturn \"\"\n}\nreturn string(*obj.%s)\n}", rc.code.nilForm(owner), f.Name, f.Name)
	}
	return fmt.Sprintf("func(obj %s) string {\nif obj == nil {\nreturn \"\"\n}\nreturn string(obj.%s)\n}",
		rc.code.nilForm(owner), f.Name)
}

// modeRule returns the rules of a field for the modes of a discriminator, at the first of its
// markers: in other modes the field is forbidden.
func (rc *ruleCompiler) modeRule(p place, m *marker.Marker) (rules, error) {
	if modeValue(m) == "" && !m.Has("") && !m.Has("mode") {
		return rules{}, fmt.Errorf("needs a mode")
	}
	key := p.path + "\n" + m.String("modality")
	if rc.checked["mode "+key] {
		return rules{}, nil
	}
	rc.checked["mode "+key] = true
	modes := rc.meta.modes[key]
	by := rc.meta.discriminators[p.parentPath+"\n"+m.String("modality")]
	switch {
	case by == nil:
		return rules{}, fmt.Errorf("needs a field with +k8s:modeDiscriminator")
	case isPointer(by.Type()) || basic(by.Type()) != "string" && basic(by.Type()) != "bool":
		return rules{}, fmt.Errorf("needs a string or boolean as its discriminator, not %s", by.Type())
	}
	suffix, err := form(p.typ)
	if err != nil {
		return rules{}, err
	}
	value, disc := rc.code.nilForm(p.typ), rc.code.Type(by.Type())
	byValue, order, level := map[string][]call{}, []string{}, p.level
	for i, rule := range modes {
		r, err := rc.rule(rule.at, rule.rule)
		if err != nil {
			return rules{}, fmt.Errorf("+%s %w", rule.rule.Name, err)
		}
		v, err := literal(by.Type(), rule.value)
		if err != nil {
			return rules{}, err
		}
		if _, known := byValue[v]; !known {
			order = append(order, v)
		}
		if i == 0 {
			level = rule.at.level
		} else if level != rule.at.level {
			level = ""
		}
		byValue[v] = append(byValue[v], each(r.calls, func(c call) call {
			if rule.at.level != "" {
				c.level = rule.at.level
			}
			return c
		})...)
	}
	slices.Sort(order)
	ruleType := rc.code.Expanded("$validate.DiscriminatedRule", nil) + "[" + value + ", " + disc + "]"
	list := "[]" + ruleType + "{\n"
	for _, v := range order {
		list += "{Value: " + v + ", Validation: " + rc.code.together(byValue[v], value) + "},\n"
	}
	forbidden := rc.code.lib("Forbidden" + suffix)
	forbidden.level = level
	c := rc.code.lib("Discriminated", fmt.Sprintf("%q", jsonName(p.field)),
		fmt.Sprintf("func(obj %s) %s { return %s }", rc.code.nilForm(p.parent), value, address("obj", p.field)),
		fmt.Sprintf("func(obj %s) %s { return obj.%s }", rc.code.nilForm(p.parent), disc, by.Name),
		rc.code.equal(p.typ), rc.code.together([]call{forbidden}, value), list+"}")
	c.ownLevel = true
	return rules{parent: []call{c}}, nil
}
