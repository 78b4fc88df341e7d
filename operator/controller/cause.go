package controller

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator/client"
	"kelson.dev/operator/trace"
)

// Cause returns a tracer's description of an event about an object of a kind. The tracer may be
// nil.
func Cause(t *trace.Tracer, kind string, e Event) trace.Cause {
	return (&kindHandler{tracer: t, kind: kind}).cause(e)
}

// cause returns the trace's description of an event. It determines the manager of the change only
// if the trace is recorded, and the changed fields only if the object changes suspiciously often.
func (h *kindHandler) cause(e Event) trace.Cause {
	c := trace.Cause{Event: e.Type, Cluster: h.cluster, Kind: h.kind}
	if e.Object == nil {
		return c
	}
	c.Key, c.ResourceVersion = client.KeyOf(e.Object), e.Object.GetResourceVersion()
	if h.tracer != nil && (e.Type == trace.Add || e.Type == trace.Update) {
		manager, only := changedBy(e.Old, e.Object)
		if h.tracer.Keeps() {
			c.Manager = manager
		}
		if e.Old == nil || !only {
			manager = "" // the event may be about several changes
		}
		h.tracer.Delivered(h.cluster, h.kind, c.Key, c.ResourceVersion, manager)
	}
	if e.Old != nil && h.tracer.Suspicious(h.cluster, h.kind, c.Key) {
		c.Manager, _ = changedBy(e.Old, e.Object)
		changes := changedFields(e.Old, e.Object)
		h.tracer.Changed(h.cluster, h.kind, c.Key, c.Manager, changes)
		paths := make([]string, 0, len(changes))
		for _, change := range changes {
			paths = append(paths, change.Path)
		}
		c.Fields = strings.Join(paths, ", ")
	}
	return c
}

// changedBy returns the manager of the newest entry of managedFields that is not in the old object,
// and whether there is no other such entry.
func changedBy(old, obj client.Object) (manager string, only bool) {
	var before []metav1.ManagedFieldsEntry
	if old != nil {
		before = old.GetManagedFields()
	}
	var newest *metav1.ManagedFieldsEntry
	changed := 0
	entries := obj.GetManagedFields()
	for i := range entries {
		e := &entries[i]
		if slices.ContainsFunc(before, func(b metav1.ManagedFieldsEntry) bool { return sameEntry(&b, e) }) {
			continue
		}
		changed++
		if newest == nil || e.Time != nil && newest.Time.Before(e.Time) {
			newest = e
		}
	}
	if newest == nil {
		return "", false
	}
	return client.FieldManager(*newest), changed == 1
}

func sameEntry(a, b *metav1.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.Subresource == b.Subresource &&
		a.APIVersion == b.APIVersion &&
		a.Time.Equal(b.Time) && (a.FieldsV1 == nil) == (b.FieldsV1 == nil) &&
		(a.FieldsV1 == nil || bytes.Equal(a.FieldsV1.GetRawBytes(), b.FieldsV1.GetRawBytes()))
}

// maxChanges and maxValue bound the description of one update.
const (
	maxChanges = 8
	maxValue   = 40
)

// changedFields returns the fields in which two states of an object differ, except those that
// change with every write.
func changedFields(old, obj client.Object) []trace.Change {
	var before, after map[string]any
	for _, each := range []struct {
		from client.Object
		into *map[string]any
	}{{old, &before}, {obj, &after}} {
		data, err := json.Marshal(each.from)
		if err != nil || json.Unmarshal(data, each.into) != nil {
			return nil
		}
		if m, ok := (*each.into)["metadata"].(map[string]any); ok {
			for _, field := range []string{"resourceVersion", "managedFields", "generation"} {
				delete(m, field)
			}
		}
	}
	var changes []trace.Change
	compare("", before, after, &changes)
	return changes
}

func compare(path string, before, after any, changes *[]trace.Change) {
	if len(*changes) >= maxChanges || reflect.DeepEqual(before, after) {
		return
	}
	b, ok1 := before.(map[string]any)
	a, ok2 := after.(map[string]any)
	if ok1 && ok2 {
		names := maps.Clone(b)
		maps.Copy(names, a)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			compare(strings.TrimPrefix(path+"."+name, "."), b[name], a[name], changes)
		}
		return
	}
	bl, ok1 := before.([]any)
	al, ok2 := after.([]any)
	if ok1 && ok2 && len(bl) == len(al) {
		for i := range bl {
			compare(path+"["+strconv.Itoa(i)+"]", bl[i], al[i], changes)
		}
		return
	}
	*changes = append(*changes, trace.Change{Path: path, Before: short(before), After: short(after)})
}

func short(v any) string {
	if v == nil {
		return "nothing"
	}
	data, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	if text := []rune(string(data)); len(text) > maxValue {
		return string(text[:maxValue]) + "…"
	}
	return string(data)
}
