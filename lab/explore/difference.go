package explore

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	recording "kelson.dev/lab/history"
)

// Difference is a difference between a state and a wanted one: in the number of objects of a name,
// or in a field of an object.
type Difference struct {
	// Object is RESOURCE NAMESPACE/NAME. Several objects may have the same generated name.
	Object string
	// Have and Want are the numbers of objects of that name. They are equal if a field differs.
	Have, Want int
	// Path is the field that differs, as in a history; "" if the numbers differ.
	Path string
	// Value is the value of the field as JSON, and Wanted the wanted one; "" if it is not set.
	Value, Wanted string

	parts []string // of Path
}

// Diff returns the differences between a state and the wanted one, in the order of objects and
// fields. The result is empty if the states are equal.
func (s State) Diff(want State) []Difference {
	ids := map[string][]map[string]any{}
	maps.Copy(ids, s.objects)
	maps.Copy(ids, want.objects)
	var all []Difference
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		all = append(all, differences(id, s.of(id, want), want.of(id, s))...)
	}
	return all
}

// of returns the objects of a name. A state contains only changed objects, so one of the prepared
// state that only the other run has changed is as it was before.
func (s State) of(id string, other State) []map[string]any {
	if all, ok := s.objects[id]; ok {
		return all
	}
	return other.prepared[id]
}

// differences returns the differences between objects of the same name.
func differences(id string, have, want []map[string]any) (all []Difference) {
	if len(have) != len(want) {
		return []Difference{{Object: id, Have: len(have), Want: len(want)}}
	}
	have, want = unequal(have, want)
	for i := range have {
		for _, c := range recording.Compare(want[i], have[i], recording.DiffOptions{Secrets: true}) {
			all = append(all, Difference{Object: id, Have: len(have), Want: len(have), Path: c.Path, Value: c.To,
				Wanted: c.From, parts: c.Parts})
		}
	}
	return all
}

// unequal returns two lists without the objects that both contain.
func unequal(a, b []map[string]any) (onlyA, onlyB []map[string]any) {
	onlyB = slices.Clone(b)
	for _, object := range a {
		same := func(o map[string]any) bool { return reflect.DeepEqual(o, object) }
		if i := slices.IndexFunc(onlyB, same); i >= 0 {
			onlyB = slices.Delete(onlyB, i, i+1)
		} else {
			onlyA = append(onlyA, object)
		}
	}
	return onlyA, onlyB
}

// String returns the difference from a run without faults.
func (d Difference) String() string { return d.text(faultless) }

// faultless is the moment of the end of a run without faults.
const faultless = "without faults"

// text returns the difference. The moment says which state is the wanted one, such as "before".
func (d Difference) text(moment string) string {
	negation := "does not "
	if strings.HasPrefix(moment, "before") {
		negation = "did not "
	}
	switch {
	case d.Path != "":
		value, wanted := excerpts(d.Value, d.Wanted)
		return fmt.Sprintf("%s%s: %s, and %s %s", d.Object, d.Path, value, wanted, moment)
	case d.Have == 1 && d.Want == 0:
		return d.Object + ": exists, and " + negation + moment
	case d.Have == 0 && d.Want == 1:
		return d.Object + ": is missing"
	}
	return fmt.Sprintf("%s: there are %d, and %d %s", d.Object, d.Have, d.Want, moment)
}

// added reports whether there are more objects than wanted.
func (d Difference) added() bool { return d.Have > d.Want }

// same reports whether two differences have the same object and field.
func (d Difference) same(other Difference) bool {
	return d.Object == other.Object && d.Path == other.Path
}

// within reports whether the difference is in a field, or below it. A field is a list of elements
// as fieldOf returns it.
func (d Difference) within(object string, field []string) bool {
	return d.Object == object && len(d.parts) >= len(field) && slices.Equal(d.parts[:len(field)], field)
}

// fieldOf returns the elements of the path of names and indexes in a fault, as histories have them:
// items of some lists are identified by name.
func fieldOf(object map[string]any, path string) (field []string) {
	var tree any = object
	for name := range strings.SplitSeq(path, ".") {
		items, isList := tree.([]any)
		value := lookup(tree, name)
		part := "." + name
		if isList {
			part = "[" + name + "]"
			for _, p := range recording.Parts(items) {
				if value != nil && reflect.DeepEqual(p.Value, value) {
					part = p.Name
				}
			}
		}
		field, tree = append(field, part), value
	}
	return field
}

// resource returns the group resource of the object.
func (d Difference) resource() string {
	resource, _, _ := strings.Cut(d.Object, " ")
	return resource
}

// withoutIgnored drops the differences in ignored fields, and in fields below them. An entry of
// ignore is RESOURCE FIELD.FIELD. It also applies if these fields are below others, and its fields
// omit the items of lists.
func withoutIgnored(ignore []string, all []Difference) []Difference {
	return slices.DeleteFunc(all, func(d Difference) bool {
		return slices.ContainsFunc(ignore, func(entry string) bool {
			resource, field, _ := strings.Cut(entry, " ")
			return d.resource() == resource && strings.Contains(d.names(), "."+field+".")
		})
	})
}

// names returns the names of the fields on the path, each between dots, without items of lists.
func (d Difference) names() string {
	var b strings.Builder
	for _, part := range d.parts {
		if strings.HasPrefix(part, ".") {
			b.WriteString(part)
		}
	}
	return b.String() + "."
}

// lines returns the texts of differences.
func lines(all []Difference, moment string) string {
	texts := make([]string, len(all))
	for i, d := range all {
		texts[i] = d.text(moment)
	}
	return strings.Join(texts, "\n")
}

// excerpts returns two values for a message. Of long ones, it omits what both have in common at
// their beginnings and ends.
func excerpts(a, b string) (string, string) {
	const long, context = 160, 24
	if len(a) <= long && len(b) <= long {
		return orUnset(a), orUnset(b)
	}
	shorter, begin, end := min(len(a), len(b)), 0, 0
	for begin < shorter && a[begin] == b[begin] {
		begin++
	}
	for end < shorter-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	begin, end = max(0, begin-context), max(0, end-context)
	cut := func(s string) string {
		if s == "" {
			return orUnset(s)
		}
		text := s[begin : len(s)-end]
		if begin > 0 {
			text = "…" + text
		}
		if end > 0 {
			text += "…"
		}
		return strings.ToValidUTF8(text, "")
	}
	return cut(a), cut(b)
}

func orUnset(value string) string {
	if value == "" {
		return "not set"
	}
	return value
}
