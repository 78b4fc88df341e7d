package plan

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"kelson.dev/apiserver/store"
	"kelson.dev/lab/history"
)

// hidden replaces values of Secrets.
const hidden = "(hidden)"

// minPart is the minimum length of values of Secrets that are also hidden inside of longer texts.
// Shorter values are hidden only if they are the whole text, because they are too often parts of
// other words.
const minPart = 6

// secrets are values that must not appear in a plan.
type secrets struct {
	values map[string]bool
	parts  []string // of at least minPart bytes, the longest first; made by complete
}

// learn adds the values of a Secret.
func (s *secrets) learn(obj *store.Object) {
	if obj == nil || obj.Key.Resource != "secrets" {
		return
	}
	if s.values == nil {
		s.values = map[string]bool{}
	}
	var secret struct {
		Data map[string]string `json:"data"`
	}
	if json.Unmarshal(obj.Data, &secret) != nil {
		return
	}
	for _, encoded := range secret.Data {
		if encoded == "" {
			continue
		}
		s.values[encoded] = true
		if raw, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			s.values[string(raw)] = true
			s.values[strings.TrimSpace(string(raw))] = true
		}
	}
	delete(s.values, "")
	s.parts = nil
}

// complete prepares the search for parts.
func (s *secrets) complete() {
	s.parts = slices.DeleteFunc(slices.Collect(maps.Keys(s.values)), func(v string) bool { return len(v) < minPart })
	slices.SortFunc(s.parts, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
}

// text hides values in a text.
func (s *secrets) text(t string) string {
	if s.values[t] {
		return hidden
	}
	for _, part := range s.parts {
		if len(part) <= len(t) && strings.Contains(t, part) {
			t = strings.ReplaceAll(t, part, hidden)
		}
	}
	return t
}

// value hides values in JSON.
func (s *secrets) value(text string) string {
	if text == "" || text == hidden {
		return text
	}
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return s.text(text)
	}
	data, err := json.Marshal(s.walk(v))
	if err != nil {
		return hidden
	}
	return string(data)
}

func (s *secrets) walk(v any) any {
	switch v := v.(type) {
	case string:
		return s.text(v)
	case []any:
		for i := range v {
			v[i] = s.walk(v[i])
		}
	case map[string]any:
		for _, key := range slices.Collect(maps.Keys(v)) {
			member := s.walk(v[key])
			if safe := s.text(key); safe != key {
				delete(v, key)
				key = safe
			}
			v[key] = member
		}
	}
	return v
}

// changes hides values in changes.
func (s *secrets) changes(all []history.Change) []history.Change {
	for i := range all {
		all[i].Path, all[i].From, all[i].To = s.text(all[i].Path), s.value(all[i].From), s.value(all[i].To)
	}
	return all
}
