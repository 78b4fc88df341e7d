package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Within reports whether a path, in the form of Change.Path, is a field or below it.
func Within(path, field string) bool {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(field, "."))
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// Field is a field of an object with the version in which it got its value.
type Field struct {
	// Path has the form of Change.Path. Only values without parts are fields: scalars, empty maps
	// and empty lists.
	Path string
	// Value is JSON, or "(hidden)".
	Value string
	// Version is the version in which the field got its value. Its Revision is 0 if that is
	// unknown, because the history was recorded without the values of Secrets.
	Version Version
	// First means that Version is the first recorded one of the object, so that the value may be
	// older than the recording.
	First bool
	// Owners are the field managers that own the field in Version, or in the requested version if
	// Version is unknown. The manager that wrote most recently is first. Fields that the server
	// sets, such as metadata.uid, have no owner.
	Owners []Owner
}

// Owner is an entry of metadata.managedFields.
type Owner struct {
	Manager     string `json:"manager"`
	Operation   string `json:"operation"` // Apply or Update
	Subresource string `json:"subresource,omitempty"`
	// Time is that of the manager's last write that changed the object.
	Time time.Time `json:"time,omitzero"`
}

// Blame returns the fields of an object in a state, in the order of paths, each with the version in
// which it got its value. It returns false if the object does not exist in the state. Versions
// before a deletion are those of another object, even if the deletion was not recorded.
//
// Blame reads all versions of the object up to the state. Of opts, it uses Secrets and Metadata.
func (s State) Blame(key Key, opts DiffOptions) (fields []Field, ok bool, err error) {
	number, known := s.h.numbers[key]
	if !known {
		return nil, false, nil
	}
	line := s.h.timelines[number]
	line = line[:s.find(line)]
	if len(line) == 0 || line[len(line)-1].content < 0 {
		return nil, false, nil
	}
	b := blamer{opts: opts}
	for _, e := range line {
		if e.content < 0 {
			b.uid, b.fields = nil, nil
			b.created = true
			continue
		}
		data, err := s.h.content(e.content)
		if err == nil {
			err = b.next(e.version(key), data)
		}
		if err != nil {
			return nil, false, fmt.Errorf("%v at revision %d: %w", key, e.revision, err)
		}
	}
	for _, f := range b.fields {
		fields = append(fields, b.shown(f))
	}
	slices.SortFunc(fields, func(x, y Field) int { return strings.Compare(x.Path, y.Path) })
	return fields, true, nil
}

// blamer holds the fields of the newest version that it has seen.
type blamer struct {
	opts    DiffOptions
	uid     any
	created bool // the history has an earlier object of the same name: the current one is newer
	secret  bool
	fields  map[string]Field
}

// next continues with the next version of the object.
func (b *blamer) next(v Version, data []byte) error {
	obj, err := decodeObject(data, DiffOptions{Metadata: true})
	if err != nil {
		return err
	}
	var trees []ownerTree
	meta, _ := obj["metadata"].(map[string]any)
	if trees, err = ownerTrees(meta["managedFields"]); err != nil {
		return err
	}
	if !b.opts.Metadata {
		delete(meta, "resourceVersion")
		delete(meta, "managedFields")
	}
	if b.fields != nil && meta["uid"] != b.uid {
		b.fields, b.created = nil, true // the object was recreated while no recorder ran
	}
	first := b.fields == nil && !b.created
	b.uid, b.secret = meta["uid"], isSecret(obj)
	fields := make(map[string]Field, len(b.fields))
	err = b.walk("", obj, trees, nil, func(path string, value string, owners []Owner) {
		f := Field{Path: path, Value: value, Version: v, First: first, Owners: owners}
		if before, ok := b.fields[path]; ok && before.Value == value {
			f = before
			if b.redacted(path, value) {
				f.Owners = owners
			}
		}
		fields[path] = f
	})
	b.fields = fields
	return err
}

// walk calls field for each field of a value. whole are the owners of the value as a whole, such as
// an atomic list; they own a field below it that has no owner of its own.
func (b *blamer) walk(path string, value any, trees []ownerTree, whole []Owner,
	field func(path, value string, owners []Owner)) error {
	if owners := ownersOf(trees, true); len(owners) > 0 {
		whole = owners
	}
	parts := Parts(value)
	if len(parts) == 0 {
		if owners := ownersOf(trees, false); len(owners) > 0 {
			whole = owners
		}
		text, err := json.Marshal(value)
		if err == nil {
			field(path, string(text), whole)
		}
		return err
	}
	for _, part := range parts {
		var below []ownerTree
		for _, t := range trees {
			if child, ok := t.child(part); ok {
				below = append(below, ownerTree{t.owner, child})
			}
		}
		if err := b.walk(path+part.Name, part.Value, below, whole, field); err != nil {
			return err
		}
	}
	return nil
}

// redacted reports whether a field is one whose value Redact removes.
func (b *blamer) redacted(path, value string) bool {
	return b.secret && value == `""` && (strings.HasPrefix(path, ".data.") || strings.HasPrefix(path, ".stringData."))
}

func (b *blamer) shown(f Field) Field {
	if b.redacted(f.Path, f.Value) {
		f.Version, f.First = Version{Key: f.Version.Key}, false
	}
	if b.secret && !b.opts.Secrets && secretPath(f.Path) {
		f.Value = hidden
	}
	return f
}

// ownerTree is the set of fields below a path that a manager owns, as the JSON of FieldsV1: f:NAME
// is a field of a map, k:KEYS an item of a list of maps, v:VALUE an item of a set and i:INDEX an
// item of another list. An empty tree is the value itself, with all that it contains.
type ownerTree struct {
	owner Owner
	tree  map[string]any
}

// ownerTrees decodes metadata.managedFields; the entry with the newest time is first.
func ownerTrees(managedFields any) ([]ownerTree, error) {
	data, err := json.Marshal(managedFields)
	if err != nil {
		return nil, err
	}
	var entries []struct {
		Owner
		FieldsV1 map[string]any `json:"fieldsV1"`
	}
	if err := json.Unmarshal(data, &entries); err != nil {
		return nil, fmt.Errorf("decode managedFields: %w", err)
	}
	var trees []ownerTree
	for _, e := range entries {
		if len(e.FieldsV1) > 0 { // an empty entry owns nothing
			trees = append(trees, ownerTree{e.Owner, e.FieldsV1})
		}
	}
	slices.SortStableFunc(trees, func(x, y ownerTree) int { return y.owner.Time.Compare(x.owner.Time) })
	return trees, nil
}

// ownersOf returns the owners of the value itself. If whole is true, it returns only those that own
// the value together with all its parts.
func ownersOf(trees []ownerTree, whole bool) (owners []Owner) {
	for _, t := range trees {
		if _, itself := t.tree["."]; itself && !whole || len(t.tree) == 0 {
			owners = append(owners, t.owner)
		}
	}
	return owners
}

// child returns the tree of a part of the value.
func (t ownerTree) child(part Part) (map[string]any, bool) {
	if name, ok := strings.CutPrefix(part.Name, "."); ok {
		child, ok := t.tree["f:"+name].(map[string]any)
		return child, ok
	}
	for element, below := range t.tree {
		child, _ := below.(map[string]any)
		kind, text, _ := strings.Cut(element, ":")
		switch kind {
		case "k":
			if item, ok := part.Value.(map[string]any); ok && hasKeys(item, text) {
				return child, true
			}
		case "v":
			if equalJSON(part.Value, text) {
				return child, true
			}
		case "i":
			if part.Name == "["+text+"]" {
				return child, true
			}
		}
	}
	return nil, false
}

// hasKeys reports whether an item of a list has the values of a JSON map.
func hasKeys(item map[string]any, text string) bool {
	var keys map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &keys) != nil {
		return false
	}
	for name, value := range keys {
		if !equalJSON(item[name], string(value)) {
			return false
		}
	}
	return true
}

// equalJSON compares a decoded value with JSON.
func equalJSON(value any, text string) bool {
	var decoded any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if d.Decode(&decoded) != nil {
		return false
	}
	x, err := json.Marshal(value)
	y, err2 := json.Marshal(decoded)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}
