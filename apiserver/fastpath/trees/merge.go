package trees

import "kelson.dev/internal/tree"

// MergePatch applies a merge patch (RFC 7386) to a valid object without duplicate fields, both as
// JSON. It copies what the patch does not name. ok is false if the library might have another
// result, or reject the patch.
func MergePatch(object, patch []byte) (merged []byte, ok bool) {
	with, err := tree.Parse(patch, nil)
	if err != nil || !plainPatch(with, false) {
		return nil, false
	}
	m := &merger{tree.Parser{Data: object}, make([]byte, 0, len(object)+len(patch))}
	if err := m.object(with); err != nil || m.Peek() != 0 {
		return nil, false
	}
	return m.merged, true
}

// plainPatch reports whether a part of a patch has no nulls in lists, which the library removes,
// and no numbers with a fraction or exponent, whose form would change.
func plainPatch(value any, inList bool) bool {
	switch v := value.(type) {
	case nil:
		return !inList
	case float64:
		return false
	case map[string]any:
		for _, inner := range v {
			if !plainPatch(inner, inList) {
				return false
			}
		}
	case []any:
		for _, inner := range v {
			if !plainPatch(inner, true) {
				return false
			}
		}
	}
	return true
}

// merger reads an object and writes the merged one.
type merger struct {
	tree.Parser
	merged []byte
}

// object merges the next object of the input with a part of the patch, which it consumes.
func (m *merger) object(with map[string]any) error {
	m.merged = append(m.merged, '{')
	first := len(m.merged)
	comma := func() {
		if len(m.merged) > first {
			m.merged = append(m.merged, ',')
		}
	}
	name := func(key []byte) {
		comma()
		m.merged = append(append(append(m.merged, '"'), key...), '"', ':')
	}
	err := m.EachPlain(func(key []byte) error {
		m.Peek()
		begin := m.At
		value, named := with[string(key)]
		delete(with, string(key))
		if inner, ok := value.(map[string]any); ok && m.Data[begin] == '{' {
			name(key)
			return m.object(inner)
		}
		if err := m.Skip(); err != nil || named && value == nil {
			return err
		}
		name(key)
		if named {
			return m.put(value)
		}
		m.merged = append(m.merged, m.Data[begin:m.At]...)
		return nil
	})
	if err != nil {
		return err
	}
	for key, value := range with {
		if value == nil {
			continue
		}
		comma()
		if err := m.put(key); err != nil {
			return err
		}
		m.merged = append(m.merged, ':')
		if err := m.put(value); err != nil {
			return err
		}
	}
	m.merged = append(m.merged, '}')
	return nil
}

// put writes a value of the patch without nulls.
func (m *merger) put(value any) (err error) {
	if object, ok := value.(map[string]any); ok {
		clean := map[string]any{}
		tree.Merge(clean, object)
		value = clean
	}
	m.merged, err = tree.Append(m.merged, value, nil)
	return err
}
