package tree

import "slices"

// Rebase applies the changes between old and new to base. old is a partial view of base: base may
// have members, and elements of lists, that old lacks, and these are preserved. Rebase does not
// modify its arguments; the result shares parts with them.
//
//	base    {"lamps":[{"name":"a","watts":60},{"name":"b","watts":40}],"keeper":"Ida"}
//	old     {"lamps":[{"name":"a"},{"name":"b"}]}
//	new     {"lamps":[{"name":"b","lit":true}]}
//	result  {"lamps":[{"name":"b","watts":40,"lit":true}],"keeper":"Ida"}
//
// An element of new replaces the equal element of old; otherwise the one with the same identity,
// which is determined by members such as "name", "type" and "id"; otherwise, if neither has an
// identity and the lists have the same length, the one at the same position. An element that
// replaces none is taken from new unchanged.
func Rebase(base, old, new any) any {
	if Same(old, new) {
		return base
	}
	switch to := new.(type) {
	case map[string]any:
		into, ok := base.(map[string]any)
		from, oldIsObject := old.(map[string]any)
		if ok && (oldIsObject || old == nil) {
			return rebaseObject(into, from, to)
		}
	case []any:
		into, ok := base.([]any)
		from, oldIsList := old.([]any)
		if ok && oldIsList && len(into) == len(from) {
			return rebaseList(into, from, to)
		}
	}
	return new
}

func rebaseObject(base, old, new map[string]any) map[string]any {
	result := make(map[string]any, len(base)+len(new))
	for name, value := range base {
		_, inOld := old[name]
		if _, inNew := new[name]; inNew || !inOld {
			result[name] = value
		}
	}
	for name, value := range new {
		oldValue, inOld := old[name]
		baseValue, inBase := base[name]
		switch {
		case inBase && (inOld || isObject(baseValue) && isObject(value)):
			result[name] = Rebase(baseValue, oldValue, value)
		case !inBase && inOld && Same(oldValue, value): // unchanged since old
		default:
			result[name] = value
		}
	}
	return result
}

func isObject(value any) bool {
	_, ok := value.(map[string]any)
	return ok
}

func rebaseList(base, old, new []any) []any {
	places := placesOf(old, new)
	result := make([]any, len(new))
	for n, place := range places {
		if place < 0 {
			result[n] = new[n]
		} else {
			result[n] = Rebase(base[place], old[place], new[n])
		}
	}
	return result
}

// placesOf returns, for each element of new, the index of the element in old that it replaces; -1
// if none.
func placesOf(old, new []any) []int {
	places, taken := make([]int, len(new)), make([]bool, len(old))
	for n := range places {
		places[n] = -1
	}
	take := func(n, o int, alike func(n, o int) bool) bool {
		if places[n] >= 0 || taken[o] || !alike(n, o) {
			return false
		}
		places[n], taken[o] = o, true
		return true
	}
	match := func(alike func(n, o int) bool) {
		for n := range min(len(new), len(old)) { // first those that keep their position
			take(n, n, alike)
		}
		for n := range new {
			for o := 0; places[n] < 0 && o < len(old) && !take(n, o, alike); o++ {
			}
		}
	}
	match(func(n, o int) bool { return Same(old[o], new[n]) })
	if !slices.Contains(places, -1) {
		return places
	}
	was, is := identities(old), identities(new)
	match(func(n, o int) bool { return len(was[o]) > 0 && Same(was[o], is[n]) })
	match(func(n, o int) bool {
		for _, name := range identifying { // the first member that both have
			if a, b := was[o][name], is[n][name]; a != nil && b != nil {
				return Same(a, b)
			}
		}
		return false
	})
	if len(old) == len(new) {
		match(func(n, o int) bool { return len(was[o]) == 0 && len(is[n]) == 0 })
	}
	return places
}

func identities(list []any) []map[string]any {
	all := make([]map[string]any, len(list))
	for n, element := range list {
		all[n] = identity(element)
	}
	return all
}

// identifying has the names of members that distinguish elements of lists, the most reliable first.
var identifying = []string{"uid", "id", "key", "name", "type", "hostname", "host", "address", "ip", "podName",
	"nodeName", "port", "path", "index", "url", "image"}

// identity returns the members of an element that distinguish it from others.
func identity(element any) map[string]any {
	object, _ := element.(map[string]any)
	var found map[string]any
	for _, name := range identifying {
		switch value := object[name].(type) {
		case string, int64:
			if found == nil {
				found = map[string]any{}
			}
			found[name] = value
		}
	}
	return found
}
