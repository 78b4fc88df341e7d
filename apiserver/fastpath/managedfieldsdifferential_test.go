package fastpath_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	upstream "k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"kelson.dev/apiserver/crd"
	"kelson.dev/apiserver/fastpath/managedfields"
	"kelson.dev/apiserver/internal/crdtest"
	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/rest"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/randomtest"
	"kelson.dev/internal/require"
)

// codecOf creates the definition of [crdtest.Definition] and returns the codec of its kind.
func codecOf(t testing.TB) resource.Codec {
	t.Helper()
	st := storetest.New(t, store.Config{})
	registry := resource.NewRegistry()
	verbs := rest.New(rest.Config{Store: st, Registry: registry})
	definitions, err := crd.New(crd.Config{Store: st, Registry: registry, Objects: func() resource.Objects {
		return verbs
	}})
	require.NoError(t, err)
	registry.Put(definitions.Resource())
	const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	req := httptest.NewRequestWithContext(request.WithRequestInfo(context.Background(), &request.RequestInfo{
		IsResourceRequest: true, Path: path, Verb: "create", APIPrefix: "apis", APIGroup: "apiextensions.k8s.io",
		APIVersion: "v1",
		Resource:   "customresourcedefinitions", Parts: []string{"customresourcedefinitions"},
	}), http.MethodPost, path, strings.NewReader(crdtest.Definition))
	req.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	verbs.ServeHTTP(answer, req)
	kind, ok := registry.Current().ByName(schema.GroupResource{Group: "example.com", Resource: "widgets"})
	if !ok {
		t.Fatalf("create the definition: %d %s", answer.Code, answer.Body)
	}
	return kind.Codec
}

// TestManagerMatchesLibrary runs random writes of several managers through the fast path and
// through the library. Both must return the same objects, managedFields and errors.
func TestManagerMatchesLibrary(t *testing.T) {
	klog.SetLogger(logr.Discard()) // the library logs invalid values
	t.Cleanup(klog.ClearLogger)
	rounds := 200
	if testing.Short() {
		rounds = 60
	}
	synctest.Test(t, func(t *testing.T) {
		seed := randomtest.Seed(t)
		g := crdtest.NewGenerator(seed, 7)
		codec := codecOf(t)
		calls := 0
		var cache *managedfields.Cache
		managers := func(subresource string) (ours, library resource.FieldManager) {
			m, err := codec.FieldManager("v1", subresource)
			require.NoError(t, err)
			config := m.(*managedfields.MapManager).MapConfig
			library, cache = config.Library, config.Cache
			config.Library = counting{library, &calls}
			return managedfields.NewMapManager(config), library
		}
		ours, library := managers("")
		oursOfStatus, libraryOfStatus := managers("status")
		writes := 0
		for range rounds {
			live := crdtest.Widget(map[string]any{}, nil)
			delete(live.Object, "metadata")
			applied := map[string]*unstructured.Unstructured{}
			for step := range 12 {
				time.Sleep(time.Duration(g.IntN(3)) * time.Second)
				mine, theirs := ours, library
				var what string
				var do func(resource.FieldManager) (*unstructured.Unstructured, error)
				kept := func(*unstructured.Unstructured) {} // stores a new state and reads it again
				by := g.One("ann", "bob", "cy")
				next := crdtest.Widget(g.Metadata(), map[string]any{"spec": g.Spec()})
				switch kind := g.IntN(4); {
				case step == 0 && kind > 0 || kind == 1:
					if step > 0 {
						next = g.Edited(live)
					}
					what = fmt.Sprintf("update by %s: %s", by, crdtest.Text(next))
					do = func(m resource.FieldManager) (*unstructured.Unstructured, error) {
						return m.UpdateNoErrors(live.DeepCopy(), next.DeepCopy(), by).(*unstructured.Unstructured), nil
					}
				case kind == 2 && step > 0:
					mine, theirs = oursOfStatus, libraryOfStatus
					before := live.DeepCopy()
					switch g.IntN(3) { // a status update ignores all other parts
					case 0:
						next = live.DeepCopy()
					case 1:
						next = crdtest.Widget(map[string]any{"name": "w"}, nil)
					}
					next.Object["status"] = g.Status()
					kept = func(u *unstructured.Unstructured) {
						status, managed := u.Object["status"], u.GetManagedFields()
						u.Object = before.Object
						u.Object["status"] = status
						u.SetManagedFields(managed)
					}
					what = fmt.Sprintf("status by %s: %s", by, crdtest.Text(next))
					do = func(m resource.FieldManager) (*unstructured.Unstructured, error) {
						return m.UpdateNoErrors(live.DeepCopy(), next.DeepCopy(), by).(*unstructured.Unstructured), nil
					}
				default:
					force := g.IntN(3) > 0
					// nearly the same configuration again
					if before := applied[by]; g.IntN(3) > 0 && before != nil {
						next = before.DeepCopy()
						g.Touch(next.Object["spec"])
						if metadata := next.Object["metadata"].(map[string]any); g.IntN(3) == 0 {
							g.Touch(metadata["labels"])
						}
					}
					applied[by] = next
					what = fmt.Sprintf("apply by %s, force %v: %s", by, force, crdtest.Text(next))
					do = func(m resource.FieldManager) (*unstructured.Unstructured, error) {
						next, err := m.Apply(live.DeepCopy(), next.DeepCopy(), by, force)
						if err != nil {
							return nil, err
						}
						return next.(*unstructured.Unstructured), nil
					}
				}
				writes++
				before := crdtest.Text(live)
				got, gotErr := do(mine)
				want, wantErr := do(theirs)
				if firstLine(gotErr) != firstLine(wantErr) || crdtest.Text(got) != crdtest.Text(want) {
					t.Fatalf("live %s\n%s\ngot  %s %v\nwant %s %v", before, what, crdtest.Text(got), gotErr,
						crdtest.Text(want), wantErr)
				}
				if crdtest.Text(live) != before {
					t.Fatalf("%s\nchanged the live object\n%s into\n%s", what, before, crdtest.Text(live))
				}
				if gotErr != nil || *g.Invalid { // the store holds no such object
					*g.Invalid = false
					continue
				}
				kept(got)
				// As it comes from the store.
				content, err := cache.Parse([]byte(crdtest.Text(got)))
				require.NoError(t, err)
				live = &unstructured.Unstructured{Object: content}
				live.SetUID("u")
				live.SetResourceVersion(fmt.Sprint(step + 1))
				if g.IntN(12) == 0 { // as after a change of the schema's types
					g.Mistype(live.Object)
					applied = map[string]*unstructured.Unstructured{}
				}
			}
		}
		t.Logf("%d writes, %d of them used the library", writes, calls)
		if calls > writes*2/3 {
			t.Errorf("of %d writes, %d used the library", writes, calls)
		}
	})
}

// A manager that applies no fields owns nothing, and is not recorded.
func TestAppliesWithoutFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := codecOf(t).FieldManager("v1", "")
		require.NoError(t, err)
		for _, spec := range []map[string]any{nil, {}} {
			created := m.UpdateNoErrors(&unstructured.Unstructured{
				Object: map[string]any{"apiVersion": crdtest.Widget(nil, nil).Object["apiVersion"], "kind": "Widget"}},
				crdtest.Widget(map[string]any{"name": "w", "labels": map[string]any{"a": "b"}},
					map[string]any{"spec": map[string]any{}}), "ann")
			config := crdtest.Widget(map[string]any{"name": "w"}, nil)
			if spec != nil {
				config.Object["spec"] = spec
			}
			got, err := m.Apply(created.DeepCopyObject(), config.DeepCopy(), "bob", true)
			require.NoError(t, err)
			want, err := m.(*managedfields.MapManager).Library.Apply(created.DeepCopyObject(), config.DeepCopy(), "bob",
				true)
			require.NoError(t, err)
			if got, want := crdtest.Text(got.(*unstructured.Unstructured)),
				crdtest.Text(want.(*unstructured.Unstructured)); got != want {
				t.Errorf("spec %v: got  %s\nwant %s", spec, got, want)
			}
		}
	})
}

// firstLine returns the first line of an error. The library lists further errors in random order.
func firstLine(err error) string {
	line, _, _ := strings.Cut(fmt.Sprint(err), "\n")
	return line
}

// counting counts the calls of the library.
type counting struct {
	resource.FieldManager
	calls *int
}

func (c counting) UpdateNoErrors(live, next runtime.Object, by string) runtime.Object {
	*c.calls++
	return c.FieldManager.UpdateNoErrors(live, next, by)
}

func (c counting) Apply(live, config runtime.Object, by string, force bool) (runtime.Object, error) {
	*c.calls++
	return c.FieldManager.Apply(live, config, by, force)
}

// TestAppliesNeedNoLibrary applies a configuration with every kind of list and map, then the same
// again, then other values by two managers, next to fields of a third manager. The manager must not
// even convert the objects to the merge library's values.
func TestAppliesNeedNoLibrary(t *testing.T) {
	m, err := codecOf(t).FieldManager("v1", "")
	require.NoError(t, err)
	config := m.(*managedfields.MapManager).MapConfig
	library, calls, converted := config.Library, 0, 0
	config.Library = counting{library, &calls}
	config.Types = countingTypes{config.Types, &converted}
	manager := managedfields.NewMapManager(config)
	widget := func(port int64, word string) *unstructured.Unstructured {
		return crdtest.Widget(map[string]any{"name": "w", "labels": map[string]any{"app": word}},
			map[string]any{"spec": map[string]any{
				"count": port, "text": word, "list": []any{word}, "whole": map[string]any{"x": word},
				"labels": map[string]any{"y": word},
				"set":    []any{"a", "b"}, "deep": map[string]any{"a": map[string]any{"b": word}},
				"ports": []any{map[string]any{"name": "b", "port": port, "on": true},
					map[string]any{"name": "a", "port": int64(10), "on": false}},
			}})
	}
	live := crdtest.Widget(nil, nil)
	delete(live.Object, "metadata")
	apply := func(by string, next *unstructured.Unstructured) {
		t.Helper()
		calls, converted = 0, 0
		got, err := manager.Apply(live.DeepCopy(), next.DeepCopy(), by, true)
		require.NoError(t, err)
		if calls > 0 || converted > 0 {
			t.Errorf("apply by %s: %d calls of the library, %d conversions", by, calls, converted)
		}
		want, err := library.Apply(live.DeepCopy(), next.DeepCopy(), by, true)
		require.NoError(t, err)
		live = got.(*unstructured.Unstructured)
		if shown, wanted := crdtest.Text(live), crdtest.Text(want.(*unstructured.Unstructured)); shown != wanted {
			t.Fatalf("apply by %s\ngot  %s\nwant %s", by, shown, wanted)
		}
		live.SetUID("u")
	}
	synctest.Test(t, func(t *testing.T) { // for its clock
		apply("op", widget(1, "a"))
		apply("op", widget(1, "a"))
		apply("op", widget(2, "b"))
		next := live.DeepCopy()
		spec := next.Object["spec"].(map[string]any)
		spec["flag"], spec["free"] = true, map[string]any{"x": []any{int64(1)}}
		spec["ports"] = append(spec["ports"].([]any), map[string]any{"name": "c", "on": true})
		live = manager.UpdateNoErrors(live, next, "hand").(*unstructured.Unstructured)
		// checks the set of hand against the schema, once
		manager.UpdateNoErrors(live, live.DeepCopy(), "hand")
		apply("op", widget(2, "b"))
		apply("op", widget(3, "c"))
		apply("other", widget(3, "c"))
		apply("other", widget(4, "d"))
	})
}

type countingTypes struct {
	upstream.TypeConverter
	converted *int
}

func (c countingTypes) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	*c.converted++
	return c.TypeConverter.ObjectToTyped(obj, opts...)
}
