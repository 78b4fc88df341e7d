package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Operation is one step of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// MarshalJSON includes the value of operations that set one, even if it is null.
func (o Operation) MarshalJSON() ([]byte, error) {
	if o.Op == "remove" {
		return json.Marshal(map[string]any{"op": o.Op, "path": o.Path})
	}
	return json.Marshal(map[string]any{"op": o.Op, "path": o.Path, "value": o.Value})
}

// Diff returns the patch that makes the changes between before and after in the document raw, from
// which both were decoded. Fields of raw that the Go type lacks stay, and fields that only the
// encoding of the Go type adds are not added.
func Diff(raw []byte, before, after any) ([]Operation, error) {
	var d differ
	documents := [3]any{}
	for i, v := range []any{json.RawMessage(raw), before, after} {
		data, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("make patch: %w", err)
		}
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber() // preserves integers
		if err := decoder.Decode(&documents[i]); err != nil {
			return nil, fmt.Errorf("make patch: %w", err)
		}
	}
	d.diff("", documents[0], documents[1], documents[2])
	return d.patch, nil
}

type differ struct{ patch []Operation }

func (d *differ) add(op, path string, value any) {
	d.patch = append(d.patch, Operation{Op: op, Path: path, Value: value})
}

// diff descends into the differences while the structure of raw matches.
func (d *differ) diff(path string, raw, before, after any) {
	if reflect.DeepEqual(before, after) {
		return
	}
	if after, ok := after.(map[string]any); ok {
		before, ok1 := before.(map[string]any)
		raw, ok2 := raw.(map[string]any)
		if ok1 && ok2 {
			d.fields(path, raw, before, after)
			return
		}
	}
	if after, ok := after.([]any); ok {
		before, ok1 := before.([]any)
		raw, ok2 := raw.([]any)
		if ok1 && ok2 && len(raw) == len(before) {
			d.items(path, raw, before, after)
			return
		}
	}
	d.add("replace", path, after)
}

func (d *differ) fields(path string, raw, before, after map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, kept := after[name]; !kept {
			if _, ok := raw[name]; ok {
				d.add("remove", child(path, name), nil)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		value := after[name]
		was, had := before[name]
		if had && reflect.DeepEqual(was, value) {
			continue
		}
		if sent, ok := raw[name]; ok {
			if !had {
				was = nil
			}
			d.diff(child(path, name), sent, was, value)
		} else {
			d.add("add", child(path, name), value)
		}
	}
}

// items skips equal elements at both ends of a list, and pairs the elements between them by
// position.
func (d *differ) items(path string, raw, before, after []any) {
	head := 0
	for head < len(before) && head < len(after) && reflect.DeepEqual(before[head], after[head]) {
		head++
	}
	tail := 0
	for tail < len(before)-head && tail < len(after)-head &&
		reflect.DeepEqual(before[len(before)-1-tail], after[len(after)-1-tail]) {
		tail++
	}
	oldEnd, newEnd := len(before)-tail, len(after)-tail
	both := min(oldEnd, newEnd)
	for i := head; i < both; i++ {
		d.diff(path+"/"+strconv.Itoa(i), raw[i], before[i], after[i])
	}
	for i := oldEnd - 1; i >= both; i-- { // from the end, so that earlier positions stay valid
		d.add("remove", path+"/"+strconv.Itoa(i), nil)
	}
	for i := both; i < newEnd; i++ {
		d.add("add", path+"/"+strconv.Itoa(i), after[i])
	}
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

func child(path, name string) string { return path + "/" + escaper.Replace(name) }
