package tree

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// Append adds a tree to dst as JSON, byte for byte as encoding/json writes it: the names of an
// object in order, "<", ">" and "&" escaped. known may be nil. It returns an error for a value that
// is not part of a tree: one of another Go type, or a number that JSON cannot represent.
func Append(dst []byte, value any, known Bytes) ([]byte, error) {
	switch v := value.(type) {
	case map[string]any:
		return appendObject(dst, v, known)
	case []any:
		if v == nil {
			return append(dst, "null"...), nil
		}
		dst = append(dst, '[')
		for i, element := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = Append(dst, element, known); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case string:
		return appendText(dst, v), nil
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case nil:
		return append(dst, "null"...), nil
	default: // numbers, and types that are not part of a tree
		data, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("write a %T as JSON: %w", v, err)
		}
		return append(dst, data...), nil
	}
}

func appendObject(dst []byte, object map[string]any, known Bytes) ([]byte, error) {
	switch len(object) {
	case 0:
		if object == nil {
			return append(dst, "null"...), nil
		}
		return append(dst, "{}"...), nil
	case 1:
		for name, value := range object {
			dst, err := appendMember(append(dst, '{'), name, value, known)
			return append(dst, '}'), err
		}
	}
	var few [24]string
	names := few[:0]
	for name := range object {
		names = append(names, name)
	}
	slices.Sort(names)
	dst = append(dst, '{')
	for i, name := range names {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendMember(dst, name, object[name], known); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func appendMember(dst []byte, name string, value any, known Bytes) ([]byte, error) {
	dst = append(appendText(dst, name), ':')
	if name == "fieldsV1" && known != nil {
		if fields, ok := value.(map[string]any); ok {
			if raw, ok := known.Bytes(fields); ok {
				return append(dst, raw...), nil
			}
		}
	}
	return Append(dst, value, known)
}

// appendText writes strings without escapes itself, and all others with encoding/json.
func appendText(dst []byte, text string) []byte {
	for i := range len(text) {
		switch b := text[i]; {
		case b < ' ', b == '"', b == '\\', b == '<', b == '>', b == '&', b >= 0x7f:
			data, _ := json.Marshal(text) // encoding a string never fails
			return append(dst, data...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, text...)
	return append(dst, '"')
}
