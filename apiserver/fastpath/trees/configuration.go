package trees

import (
	"bytes"

	"kelson.dev/apiserver/internal/intern"
	"kelson.dev/internal/tree"
)

// Configuration parses an applied configuration as JSON. Clients send JSON although the media type
// of an apply is YAML, and the YAML parser takes 218 µs instead of 12 µs for 1 KB. ok is false if
// the body is not a JSON object, if it could mean something else in YAML, or if the YAML parser
// might report an error or a warning. The caller must then parse the body as YAML.
func Configuration(body []byte) (config map[string]any, ok bool) {
	if len(body) == 0 || body[0] != '{' {
		return nil, false
	}
	for _, c := range body { // YAML has its own rules for escapes, tabs and non-ASCII characters
		if c == '\\' || c >= 0x7f || c < ' ' && c != '\n' {
			return nil, false
		}
	}
	if bytes.Contains(body, []byte("<<")) { // a merge key of YAML
		return nil, false
	}
	t := configured.Get()
	defer configured.Put(t)
	config, err := tree.Parse(body, plainTexts{t})
	if err != nil || !plainValue(config) {
		return nil, false
	}
	return config, true
}

// configured shares strings between configurations, because most programs apply similar ones.
var configured intern.Pool

// plainTexts shares strings, but no field sets.
type plainTexts struct{ *intern.Texts }

func (plainTexts) Fields([]byte) (map[string]any, bool) { return nil, false }
func (plainTexts) Keep([]byte, map[string]any)          {}

// maxKeyBytes is the length, in bytes, of the longest key that a YAML parser accepts.
const maxKeyBytes = 1000

// plainValue reports whether a value certainly means the same in YAML.
func plainValue(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for name, value := range v {
			if len(name) > maxKeyBytes || !plainValue(value) {
				return false
			}
		}
	case []any:
		for _, item := range v {
			if !plainValue(item) {
				return false
			}
		}
	case float64: // YAML decides differently which numbers are integers
		return false
	}
	return true
}
