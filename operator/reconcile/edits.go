package reconcile

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/operator/client"
)

// editWarnings warns about changes of the reconciler's object that the library does not write.
type editWarnings struct {
	mu     sync.Mutex
	runs   int
	warned map[string]bool
}

const (
	// The comparison takes as long as some reconciles. A reconciler with the mistake repeats it
	// often, so the first reconciles are checked, and then a few.
	checkedRuns   = 16
	checkOneOf    = 64
	maxEditWarned = 64
)

func (w *editWarnings) due() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs++
	return w.runs <= checkedRuns || w.runs%checkOneOf == 0
}

// first reports whether no warning about the same fields was logged before.
func (w *editWarnings) first(fields string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.warned[fields] || len(w.warned) >= maxEditWarned {
		return false
	}
	if w.warned == nil {
		w.warned = map[string]bool{}
	}
	w.warned[fields] = true
	return true
}

// warnUnwritten logs a warning if the reconciler has changed more than the status, unless it has
// written the object itself.
func (r *run[T, P]) warnUnwritten(ctx context.Context) {
	if r.obj.GetResourceVersion() != r.version || !r.edits.due() {
		return
	}
	if fields := strings.Join(unwrittenEdits(r.read, r.obj), ", "); fields != "" && r.edits.first(fields) {
		Log(ctx).Warn("the reconciler changed fields that the library does not write, because it writes only the status: use Client.Update, Patch or Apply", "fields", fields)
	}
}

// unwrittenEdits returns the names of the fields that differ, except the status, and those that
// writes change.
func unwrittenEdits(before, after client.Object) (fields []string) {
	for name, differ := range map[string]bool{
		"metadata.labels":      !equality.Semantic.DeepEqual(before.GetLabels(), after.GetLabels()),
		"metadata.annotations": !equality.Semantic.DeepEqual(before.GetAnnotations(), after.GetAnnotations()),
		"metadata.finalizers":  !equality.Semantic.DeepEqual(before.GetFinalizers(), after.GetFinalizers()),
		"metadata.ownerReferences": !equality.Semantic.DeepEqual(before.GetOwnerReferences(),
			after.GetOwnerReferences()),
	} {
		if differ {
			fields = append(fields, name)
		}
	}
	fields = append(fields, otherFields(before, after)...)
	slices.Sort(fields)
	return fields
}

// otherFields returns the names of the top-level fields that differ, except metadata and status.
func otherFields(before, after client.Object) (fields []string) {
	if u, ok := after.(*unstructured.Unstructured); ok {
		old, ok := before.(*unstructured.Unstructured)
		if !ok {
			return nil
		}
		for _, content := range []map[string]any{u.Object, old.Object} {
			for name := range content {
				if name != "metadata" && name != "status" && !slices.Contains(fields, name) &&
					!equality.Semantic.DeepEqual(old.Object[name], u.Object[name]) {
					fields = append(fields, name)
				}
			}
		}
		return fields
	}
	a, b := reflect.ValueOf(before), reflect.ValueOf(after)
	if a.Type() != b.Type() || a.Kind() != reflect.Pointer || a.Elem().Kind() != reflect.Struct {
		return nil
	}
	a, b = a.Elem(), b.Elem()
	for i := range a.NumField() {
		f := a.Type().Field(i)
		if f.Anonymous || !f.IsExported() || f.Name == "Status" {
			continue
		}
		if !equality.Semantic.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = f.Name
			}
			fields = append(fields, name)
		}
	}
	return fields
}
