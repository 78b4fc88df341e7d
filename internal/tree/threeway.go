package tree

// ThreeWay applies the changes between old and new to theirs, which others have changed since old.
// Where both sides changed a value, new wins. In contrast to [Rebase], theirs can differ from old
// in any way. ThreeWay does not modify its arguments; the result shares parts with them.
//
//	theirs  {"conditions":[{"type":"A","status":"False"},{"type":"B","status":"True"}]}
//	old     {"conditions":[{"type":"A","status":"True"}]}
//	new     {"conditions":[{"type":"A","status":"True"},{"type":"C","status":"True"}]}
//	        {"conditions":[{"type":"A","status":"False"},{"type":"C","status":"True"},{"type":"B","status":"True"}]}
//
// Elements of lists are matched as by Rebase. Elements that are only in theirs come last.
func ThreeWay(theirs, old, new any) any {
	if Same(old, new) {
		return theirs
	}
	if Same(old, theirs) {
		return new
	}
	switch to := new.(type) {
	case map[string]any:
		into, ok := theirs.(map[string]any)
		if from, oldIsObject := old.(map[string]any); ok && (oldIsObject || old == nil) {
			return threeWayObject(into, from, to)
		}
	case []any:
		into, ok := theirs.([]any)
		if from, oldIsList := old.([]any); ok && (oldIsList || old == nil) {
			return threeWayList(into, from, to)
		}
	}
	return new
}

func threeWayObject(theirs, old, new map[string]any) map[string]any {
	result := make(map[string]any, len(theirs)+len(new))
	for name, value := range theirs {
		_, inOld := old[name]
		if _, inNew := new[name]; inNew || !inOld {
			result[name] = value
		}
	}
	for name, value := range new {
		oldValue, wasInOld := old[name]
		theirValue, ok := theirs[name]
		switch {
		case ok:
			result[name] = ThreeWay(theirValue, oldValue, value)
		case !wasInOld || !Same(oldValue, value): // otherwise theirs has removed it
			result[name] = value
		}
	}
	return result
}

func threeWayList(theirs, old, new []any) []any {
	fromOld := placesOf(old, new)     // of each element of new, its index in old
	inTheirs := placesOf(theirs, old) // of each element of old, its index in theirs
	added := map[int]bool{}           // indexes of the elements that only theirs has
	for n := range theirs {
		added[n] = true
	}
	for _, place := range inTheirs {
		delete(added, place)
	}
	// Both sides may have added the same element.
	inAdded := placesOf(theirs, new)
	result := make([]any, 0, len(new)+len(added))
	for n, value := range new {
		o := fromOld[n]
		switch {
		case o >= 0 && inTheirs[o] >= 0:
			value = ThreeWay(theirs[inTheirs[o]], old[o], value)
		case o >= 0 && Same(old[o], value):
			continue // theirs has removed it
		case o < 0 && added[inAdded[n]]:
			delete(added, inAdded[n])
			value = ThreeWay(theirs[inAdded[n]], nil, value)
		}
		result = append(result, value)
	}
	for n, value := range theirs {
		if added[n] {
			result = append(result, value)
		}
	}
	return result
}
