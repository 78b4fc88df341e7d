package explore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	recording "kelson.dev/lab/history"
	"kelson.dev/operator/client"
)

// recordedTogether is the longest time between recorded writes that become one input.
const recordedTogether = time.Second

// Recorded returns inputs that repeat the changes of the objects of some resources in a history: a
// file or folder of kelson record, kelson serve --history or kelson history import. A resource is
// named as in kubectl. Objects that existed at the beginning are created first.
//
// It omits changes of status and finalizers, because operators make them. All other changes are
// repeated, so name only resources that users write. Writes within a second are one input. Pauses
// are not repeated: before each input, the explorer waits until the operator is quiet.
func Recorded(file string, resources ...string) ([]Input, error) {
	h, err := recording.Open(file)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	var all []write
	for _, word := range resources {
		found := h.Find(word)
		if len(found) != 1 {
			return nil, fmt.Errorf("history %s: %d resources are called %q; it has %s", file, len(found), word,
				strings.Join(namesOf(h), ", "))
		}
		for _, key := range h.Keys(found[0].Name()) {
			writes, err := writesOf(h, found[0], key)
			if err != nil {
				return nil, fmt.Errorf("history %s: %w", file, err)
			}
			all = append(all, writes...)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("history %s: nothing happened to objects of %s", file, strings.Join(resources, ", "))
	}
	slices.SortStableFunc(all, func(a, b write) int { return cmp.Compare(a.revision, b.revision) })
	return inputsOf(all), nil
}

func namesOf(h *recording.History) (names []string) {
	for _, r := range h.Resources() {
		names = append(names, r.Name())
	}
	return names
}

// write is one write of a user in a history.
type write struct {
	verb     string // create, change or delete
	object   *unstructured.Unstructured
	revision uint64
	time     time.Time
}

// writesOf returns the writes of users to an object.
func writesOf(h *recording.History, r recording.Resource, key recording.Key) (all []write, err error) {
	var before *unstructured.Unstructured // nil if it does not exist, or is being deleted
	for v := range h.Versions(key) {
		_, data, _, err := h.At(v.Revision).Get(key)
		if err != nil {
			return nil, fmt.Errorf("%v at revision %d: %w", key, v.Revision, err)
		}
		w := write{verb: "change", revision: v.Revision, time: v.Time}
		var now *unstructured.Unstructured
		if !v.Deleted {
			var content map[string]any
			if err := json.Unmarshal(data, &content); err != nil {
				return nil, fmt.Errorf("%v at revision %d: %w", key, v.Revision, err)
			}
			now = &unstructured.Unstructured{Object: integers(content).(map[string]any)}
			now.SetGroupVersionKind(schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind})
		}
		switch {
		case before == nil && (now == nil || now.GetDeletionTimestamp() != nil):
			continue
		case before == nil:
			w.verb, w.object = "create", manifestOf(now)
		case now == nil || now.GetDeletionTimestamp() != nil:
			w.verb, w.object, before = "delete", manifestOf(before), nil
			all = append(all, w)
			continue
		case reflect.DeepEqual(manifestOf(before).Object, manifestOf(now).Object):
			continue
		default:
			w.object = manifestOf(now)
		}
		before, all = now, append(all, w)
	}
	return all, nil
}

// manifestOf returns an object without its status and without metadata that the server or the
// operator sets.
func manifestOf(obj *unstructured.Unstructured) *unstructured.Unstructured {
	m := &unstructured.Unstructured{Object: map[string]any{}}
	maps.Copy(m.Object, obj.Object)
	delete(m.Object, "status")
	delete(m.Object, "metadata")
	m.SetNamespace(obj.GetNamespace())
	m.SetName(obj.GetName())
	m.SetLabels(obj.GetLabels())
	m.SetAnnotations(obj.GetAnnotations())
	return m.DeepCopy()
}

// inputsOf converts writes to inputs. At the end, the explorer deletes one object for each input,
// so each creation gets an input of its own.
func inputsOf(all []write) (inputs []Input) {
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].time.Sub(all[0].time) < recordedTogether && all[n].verb == all[0].verb &&
			all[n].verb != "create" {
			n++
		}
		group := all[:n]
		all = all[n:]
		if w := group[0]; w.verb == "create" {
			inputs = append(inputs, createInNamespace(w.object))
			continue
		}
		var names []string
		for _, w := range group {
			names = append(names, naming(w.object))
		}
		inputs = append(inputs, Do(group[0].verb+" "+strings.Join(names, ", "),
			func(ctx context.Context, c client.Client) error {
				for _, w := range group {
					if err := w.make(ctx, c); err != nil {
						return err
					}
				}
				return nil
			}))
	}
	return inputs
}

// createInNamespace does the same as Create, and creates the namespace if it does not exist.
func createInNamespace(obj client.Object) Input {
	input := Create(obj)
	create := input.do
	input.again = createInNamespace
	input.do = func(ctx context.Context, c client.Client) error {
		if obj.GetNamespace() != "" {
			namespace := &corev1.Namespace{}
			namespace.Name = obj.GetNamespace()
			if err := c.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		return create(ctx, c)
	}
	return input
}

func (w write) make(ctx context.Context, c client.Client) error {
	if w.verb == "delete" {
		return Delete(w.object).do(ctx, c)
	}
	// A fault may have deleted it.
	return client.IgnoreNotFound(restore(ctx, c, w.object))
}
