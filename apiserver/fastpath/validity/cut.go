package validity

// Cut returns a part of a value with at most n elements and members that are not certainly valid,
// and whether it omitted anything. The library compares each error with all others and would need
// minutes for a list of a hundred thousand invalid elements. Errors that it finds in the part are
// also errors of the value, at the same path. The part shares memory with the value.
func (c *Schema) Cut(value any, n int) (part any, cut bool) {
	k := &cutter{left: n}
	part = k.value(c, value)
	return part, k.cut
}

// cutter counts the parts that are not certainly valid.
type cutter struct {
	left int
	cut  bool
}

func (k *cutter) value(c *Schema, value any) any {
	// omissions could change which alternative of anyOf holds
	if c == nil || len(c.some) > 0 || c.Valid(value) {
		return value
	}
	switch v := value.(type) {
	case []any:
		if c.types&array != 0 && !c.anyItems {
			return k.list(c, v)
		}
	case map[string]any:
		if c.types&object != 0 {
			return k.members(c, v)
		}
	}
	return value
}

// list keeps the elements up to the nth that is not certainly valid.
func (k *cutter) list(c *Schema, v []any) any {
	out := make([]any, 0, min(len(v), 1024))
	for _, element := range v {
		if !c.items.Valid(element) {
			if k.left <= 0 && !below(len(out), c.minItems) {
				k.cut = true
				return out
			}
			element = k.value(c.items, element)
			k.left--
		}
		out = append(out, element)
	}
	return out
}

// members omits members that are not in the schema's properties and not certainly valid.
func (k *cutter) members(c *Schema, v map[string]any) any {
	out := make(map[string]any, len(c.properties))
	for name, member := range v {
		property, named := c.properties[name]
		switch {
		case named:
			member = k.value(property, member)
		case c.closed, !c.open && !c.others.Valid(member):
			if k.left <= 0 && c.minProperties == nil && !c.requires(name) {
				k.cut = true
				continue
			}
			if !c.closed {
				member = k.value(c.others, member)
			}
			k.left--
		}
		out[name] = member
	}
	return out
}

func (c *Schema) requires(name string) bool {
	for _, required := range c.required {
		if required == name {
			return true
		}
	}
	return false
}

func below(n int, least *int64) bool { return least != nil && int64(n) < *least }
