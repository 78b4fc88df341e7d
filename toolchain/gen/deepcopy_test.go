package gen_test

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/internal/require"
	"kelson.dev/toolchain/gen/deepcopy"
	"kelson.dev/toolchain/gen/internal/fixture"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

var update = flag.Bool("update", false, "write the fixture's generated file")

var (
	_ runtime.Object = &fixture.Everything{}
	_ runtime.Object = fixture.List{}
)

// The methods of the fixture are up to date.
func TestFixtureIsCurrent(t *testing.T) {
	ws, err := loader.Open(t.Context(), loader.Config{Dir: "internal/fixture"})
	require.NoError(t, err)
	api, err := model.Build(ws, marker.Standard())
	require.NoError(t, err)
	got, err := deepcopy.Generate(api.Packages[0], "")
	require.NoError(t, err)
	name := filepath.Join("internal", "fixture", deepcopy.FileName)
	if *update {
		require.NoError(t, os.WriteFile(name, got, 0o644))
		return
	}
	want, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equalf(t, string(got), string(want), "the fixture's methods are out of date")
}

// A copy equals its original and shares no memory with it.
func TestCopies(t *testing.T) {
	for seed := range uint64(30) {
		in := &fixture.Everything{}
		f := &filler{rand.New(rand.NewPCG(seed, 0))}
		f.fill(reflect.ValueOf(in).Elem(), 0)
		out := in.DeepCopy()
		if out.Manual.Copies != in.Manual.Copies+1 ||
			in.ManualPtr != nil && out.ManualPtr.Copies != in.ManualPtr.Copies+1 {
			t.Fatalf("seed %d: a copy by hand was not used", seed)
		}
		forgetCounts(reflect.ValueOf(in).Elem())
		forgetCounts(reflect.ValueOf(out).Elem())
		for i := range reflect.TypeFor[fixture.Everything]().NumField() {
			a, b := reflect.ValueOf(in).Elem().Field(i), reflect.ValueOf(out).Elem().Field(i)
			if !reflect.DeepEqual(a.Interface(), b.Interface()) {
				t.Fatalf("seed %d: %s differs:\n%+v\n%+v", seed, reflect.TypeOf(*in).Field(i).Name, a, b)
			}
		}
		if path := shared(reflect.ValueOf(in), reflect.ValueOf(out), "in"); path != "" {
			t.Fatalf("seed %d: %s is shared with the copy", seed, path)
		}
		if obj, ok := in.DeepCopyObject().(*fixture.Everything); !ok || obj == in || obj.Name != in.Name {
			t.Fatalf("seed %d: DeepCopyObject is %v", seed, obj)
		}
	}
	if (*fixture.Everything)(nil).DeepCopy() != nil || (*fixture.Everything)(nil).DeepCopyObject() != nil ||
		fixture.List(nil).DeepCopy() != nil {
		t.Error("a copy of nil is not nil")
	}
}

type filler struct{ *rand.Rand }

// fill sets a value to random content; a third of the values that can be nil are nil.
func (f *filler) fill(v reflect.Value, depth int) {
	if !v.CanSet() {
		return
	}
	null := depth > 0 && f.IntN(3) == 0 || depth > 12
	switch v.Kind() {
	case reflect.Pointer:
		if !null {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), depth+1)
		}
	case reflect.Slice:
		if !null {
			v.Set(reflect.MakeSlice(v.Type(), f.IntN(3), 5))
			for i := range v.Len() {
				f.fill(v.Index(i), depth+1)
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			f.fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		if !null {
			v.Set(reflect.MakeMap(v.Type()))
			for range f.IntN(3) {
				key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				f.fill(key, depth+1)
				f.fill(elem, depth+1)
				v.SetMapIndex(key, elem)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i), depth+1)
		}
	case reflect.String:
		v.SetString(string(rune('a' + f.IntN(26))))
	case reflect.Bool:
		v.SetBool(f.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.IntN(100)))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(f.IntN(100)))
	}
}

// forgetCounts resets the counts of Manuals, which depend on how often they were copied.
func forgetCounts(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			forgetCounts(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			forgetCounts(v.Index(i))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			elem := reflect.New(v.Type().Elem()).Elem()
			elem.Set(v.MapIndex(k))
			forgetCounts(elem)
			v.SetMapIndex(k, elem)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[fixture.Manual]() {
			v.FieldByName("Copies").SetInt(0)
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				forgetCounts(v.Field(i))
			}
		}
	}
}

// shared returns the path of a pointer, slice or map that both values share, or "".
func shared(a, b reflect.Value, path string) string {
	switch a.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if a.IsNil() {
			return ""
		}
		if a.Pointer() == b.Pointer() && (a.Kind() != reflect.Slice || a.Cap() > 0) {
			return path
		}
	}
	switch a.Kind() {
	case reflect.Pointer:
		return shared(a.Elem(), b.Elem(), "*"+path)
	case reflect.Slice, reflect.Array:
		for i := range a.Len() {
			if p := shared(a.Index(i), b.Index(i), path+"[i]"); p != "" {
				return p
			}
		}
	case reflect.Map:
		for _, k := range a.MapKeys() {
			if p := shared(a.MapIndex(k), b.MapIndex(k), path+"[k]"); p != "" {
				return p
			}
		}
	case reflect.Struct:
		for i := range a.NumField() {
			if f := a.Type().Field(i); f.IsExported() {
				if p := shared(a.Field(i), b.Field(i), path+"."+f.Name); p != "" {
					return p
				}
			}
		}
	}
	return ""
}
