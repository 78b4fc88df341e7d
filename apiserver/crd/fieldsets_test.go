package crd

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"kelson.dev/apiserver/crd/managedfields"
	"kelson.dev/apiserver/store/storetest"
)

const ownedDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"widgets.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"widgets","kind":"Widget"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{
 "count":{"type":"integer"},"ratio":{"type":"number"},"text":{"type":"string"},"flag":{"type":"boolean"},"either":{"x-kubernetes-int-or-string":true},
 "labels":{"type":"object","additionalProperties":{"type":"string"}},
 "whole":{"type":"object","x-kubernetes-map-type":"atomic","additionalProperties":{"type":"string"}},
 "list":{"type":"array","items":{"type":"string"}},
 "set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
 "steps":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"n":{"type":"integer"}}}},
 "ports":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],"properties":{
  "name":{"type":"string"},"port":{"type":"integer"},"on":{"type":"boolean","default":true}}}},
 "free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
 "deep":{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"string"},"c":{"type":"integer","nullable":true}}}}}}},
"status":{"type":"object","properties":{"phase":{"type":"string"},"seen":{"type":"integer"},
 "conditions":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["type"],"items":{"type":"object","required":["type"],"properties":{
  "type":{"type":"string"},"status":{"type":"string"}}}}}}}}}}]},
"status":{"acceptedNames":{"plural":"widgets","kind":"Widget"}}}`

// author writes objects at random.
type author struct {
	*rand.Rand
	wrong *bool // set when something is of another kind than the schema says
}

func newAuthor(seed, stream uint64) author {
	return author{rand.New(rand.NewPCG(seed, stream)), new(bool)}
}

func (a author) one(of ...string) string { return of[a.IntN(len(of))] }

func (a author) often(m map[string]any, name string, value any) {
	if a.IntN(3) > 0 {
		m[name] = value
	}
}

func (a author) words() map[string]any {
	m := map[string]any{}
	for range a.IntN(3) {
		m[a.one("x", "y", `q"\<é`)] = a.one("1", "2")
	}
	return m
}

func (a author) spec() map[string]any {
	m := map[string]any{}
	a.often(m, "count", int64(a.IntN(2)))
	a.often(m, "text", a.one("a", "b", ""))
	a.often(m, "labels", a.words())
	if a.IntN(2) == 0 {
		a.often(m, "flag", a.IntN(2) == 0)
		a.often(m, "whole", a.words())
		list := []any{}
		for range a.IntN(3) {
			list = append(list, a.one("a", "b"))
		}
		a.often(m, "list", list)
		if a.IntN(9) == 0 { // of the wrong kind, deep inside
			*a.wrong = true
			m[a.one("steps", "list")] = []any{a.one("x", "y"), map[string]any{"name": "x", "n": a.one("1", "2")}, true}
		}
		a.often(m, "steps", []any{map[string]any{"name": a.one("x", "y"), "n": int64(a.IntN(2))}})
		deep := map[string]any{}
		a.often(deep, "b", a.one("a", "b"))
		a.often(deep, "c", int64(a.IntN(2)))
		a.often(m, "deep", map[string]any{"a": deep})
	}
	switch a.IntN(8) {
	case 0:
		m["ratio"] = 0.5 * float64(a.IntN(3))
	case 1:
		m["ratio"] = int64(a.IntN(2))
	case 2:
		m["either"] = int64(1)
	case 3:
		m["either"] = "1"
	case 4:
		m["free"] = map[string]any{"x": a.words(), "y": []any{int64(a.IntN(2))}}
	case 5:
		m["set"] = []any{a.one("a", "b"), "c"}
	case 6:
		ports := []any{}
		for _, name := range []string{"a", "b", "c"}[:a.IntN(3)+1] {
			ports = append(ports, map[string]any{"name": name, "port": int64(a.IntN(2)), "on": true})
		}
		m["ports"] = ports
	}
	return m
}

func (a author) status() map[string]any {
	m := map[string]any{}
	a.often(m, "phase", a.one("New", "Done"))
	a.often(m, "seen", int64(a.IntN(3)))
	if a.IntN(3) == 0 {
		m["conditions"] = []any{map[string]any{"type": a.one("Ready", "Ill"), "status": a.one("True", "False")}}
	}
	return m
}

func (a author) metadata() map[string]any {
	m := map[string]any{"name": "w"}
	if a.IntN(3) == 0 {
		m["labels"] = a.words()
	}
	if a.IntN(6) == 0 {
		m["annotations"] = a.words()
	}
	if a.IntN(10) == 0 {
		m["finalizers"] = []any{"example.com/" + a.one("a", "b")}
	}
	if a.IntN(10) == 0 {
		m["generateName"] = "w-"
	}
	if a.IntN(10) == 0 {
		m["ownerReferences"] = []any{map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": a.one("1", "2")}}
	}
	return m
}

func widgetOf(metadata map[string]any, parts map[string]any) *unstructured.Unstructured {
	content := map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}
	for name, value := range parts {
		content[name] = value
	}
	return &unstructured.Unstructured{Object: content}
}

// edited is an object with some other parts, as a PUT or a patch would make it.
func (a author) edited(u *unstructured.Unstructured) *unstructured.Unstructured {
	next := u.DeepCopy()
	metadata, there := next.Object["metadata"].(map[string]any)
	if !there {
		return widgetOf(a.metadata(), map[string]any{"spec": a.spec()})
	}
	if a.IntN(3) == 0 {
		delete(metadata, "managedFields")
	}
	if a.IntN(6) == 0 {
		delete(metadata, "resourceVersion")
		delete(metadata, "uid")
	}
	spec, _ := next.Object["spec"].(map[string]any)
	switch a.IntN(6) {
	case 0:
		next.Object["spec"] = a.spec()
	case 1:
		next.Object["status"] = a.status()
	case 2:
		for name, value := range a.metadata() {
			metadata[name] = value
		}
	case 3:
	case 4:
		for name, value := range a.spec() {
			if spec != nil && a.IntN(3) == 0 {
				spec[name] = value
			}
		}
	case 5:
		if spec != nil {
			if _, ok := spec["count"].(int64); ok {
				spec["count"] = int64(a.IntN(9))
			}
			if _, ok := spec["labels"].(map[string]any); ok && a.IntN(2) == 0 {
				delete(spec, "labels")
			}
		}
	}
	return next
}

// touch gives some values within other values.
func (a author) touch(value any) {
	object, _ := value.(map[string]any)
	for name, value := range object {
		if a.IntN(3) > 0 {
			continue
		}
		switch v := value.(type) {
		case map[string]any:
			a.touch(v)
		case []any:
			object[name] = append(slices.Clone(v), v...)
		case string:
			object[name] = a.one("a", "b", "c")
		case int64:
			object[name] = int64(a.IntN(3))
		case float64:
			object[name] = v + 0.5
		case bool:
			object[name] = !v
		}
	}
}

// API-08: the fields of custom objects are everybody's whose the library says they are, after any writes of several managers.
func TestFieldsAreWhoseTheLibrarySays(t *testing.T) {
	var definition apiextensionsv1.CustomResourceDefinition
	if err := json.Unmarshal([]byte(ownedDefinition), &definition); err != nil {
		t.Fatal(err)
	}
	klog.SetLogger(logr.Discard()) // the library says there what can't be
	t.Cleanup(klog.ClearLogger)
	rounds := 200
	if testing.Short() {
		rounds = 60
	}
	synctest.Test(t, func(t *testing.T) {
		seed := storetest.Seed(t)
		a := newAuthor(seed, 7)
		k := compile(nil, &definition, 1)
		asked := 0
		managers := func(subresource string) (ours, library managedfields.Library) {
			m, err := k.models.manager("v1", subresource)
			if err != nil {
				t.Fatal(err)
			}
			config := m.(*managedfields.Manager).Config
			library = config.Library
			config.Library = counting{library, &asked}
			return managedfields.New(config), library
		}
		ours, library := managers("")
		oursOfStatus, libraryOfStatus := managers("status")
		writes := 0
		for range rounds {
			live := widgetOf(map[string]any{}, nil)
			delete(live.Object, "metadata")
			applied := map[string]*unstructured.Unstructured{}
			for step := range 12 {
				time.Sleep(time.Duration(a.IntN(3)) * time.Second)
				mine, theirs := ours, library
				var what string
				var do func(managedfields.Library) (*unstructured.Unstructured, error)
				kept := func(*unstructured.Unstructured) {} // makes of a new state what is stored
				by := a.one("ann", "bob", "cy")
				next := widgetOf(a.metadata(), map[string]any{"spec": a.spec()})
				switch kind := a.IntN(4); {
				case step == 0 && kind > 0 || kind == 1:
					if step > 0 {
						next = a.edited(live)
					}
					what = fmt.Sprintf("update by %s: %s", by, text(next))
					do = func(m managedfields.Library) (*unstructured.Unstructured, error) {
						return m.UpdateNoErrors(live.DeepCopy(), next.DeepCopy(), by).(*unstructured.Unstructured), nil
					}
				case kind == 2 && step > 0:
					mine, theirs = oursOfStatus, libraryOfStatus
					before := live.DeepCopy()
					switch a.IntN(3) { // what else there is in it does not count
					case 0:
						next = live.DeepCopy()
					case 1:
						next = widgetOf(map[string]any{"name": "w"}, nil)
					}
					next.Object["status"] = a.status()
					kept = func(u *unstructured.Unstructured) {
						status, managed := u.Object["status"], u.GetManagedFields()
						u.Object = before.Object
						u.Object["status"] = status
						u.SetManagedFields(managed)
					}
					what = fmt.Sprintf("status by %s: %s", by, text(next))
					do = func(m managedfields.Library) (*unstructured.Unstructured, error) {
						return m.UpdateNoErrors(live.DeepCopy(), next.DeepCopy(), by).(*unstructured.Unstructured), nil
					}
				default:
					force := a.IntN(3) > 0
					if before := applied[by]; a.IntN(3) > 0 && before != nil { // the same again, nearly
						next = before.DeepCopy()
						a.touch(next.Object["spec"])
						if metadata := next.Object["metadata"].(map[string]any); a.IntN(3) == 0 {
							a.touch(metadata["labels"])
						}
					}
					applied[by] = next
					what = fmt.Sprintf("apply by %s, force %v: %s", by, force, text(next))
					do = func(m managedfields.Library) (*unstructured.Unstructured, error) {
						made, err := m.Apply(live.DeepCopy(), next.DeepCopy(), by, force)
						if err != nil {
							return nil, err
						}
						return made.(*unstructured.Unstructured), nil
					}
				}
				writes++
				before := text(live)
				got, gotErr := do(mine)
				want, wantErr := do(theirs)
				if firstLine(gotErr) != firstLine(wantErr) || text(got) != text(want) {
					t.Fatalf("of %s\n%s\ncame %s %v\nwant %s %v", before, what, text(got), gotErr, text(want), wantErr)
				}
				if text(live) != before {
					t.Fatalf("%s\nchanged the live object\n%s into\n%s", what, before, text(live))
				}
				if gotErr != nil || *a.wrong { // such is never stored
					*a.wrong = false
					continue
				}
				kept(got)
				// As it comes from the store.
				content, err := k.fields.Parse([]byte(text(got)))
				if err != nil {
					t.Fatal(err)
				}
				live = &unstructured.Unstructured{Object: content}
				live.SetUID("u")
				live.SetResourceVersion(fmt.Sprint(step + 1))
			}
		}
		t.Logf("%d writes, %d of them asked the library", writes, asked)
		if asked > writes*2/3 {
			t.Errorf("of %d writes %d asked the library", writes, asked)
		}
	})
}

// firstLine is an error's; which of several errors the library lists after it is chance.
func firstLine(err error) string {
	line, _, _ := strings.Cut(fmt.Sprint(err), "\n")
	return line
}

// counting counts how often the library is asked.
type counting struct {
	managedfields.Library
	asked *int
}

func (c counting) UpdateNoErrors(live, next runtime.Object, by string) runtime.Object {
	*c.asked++
	return c.Library.UpdateNoErrors(live, next, by)
}

func (c counting) Apply(live, config runtime.Object, by string, force bool) (runtime.Object, error) {
	*c.asked++
	return c.Library.Apply(live, config, by, force)
}

func text(u *unstructured.Unstructured) string {
	if u == nil {
		return ""
	}
	data, err := json.Marshal(u.Object)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
