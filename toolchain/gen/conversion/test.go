package conversion

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/model"
)

// test returns the source of the round-trip tests, or nil if there are no kinds. If not every value
// of a Go type is valid in the API, a function fuzzFuncs in the package's tests can restrict the
// values.
func (g *generator) test() ([]byte, error) {
	f := source.New(g.Package.Path, g.Package.Name)
	var cases strings.Builder
	for _, d := range g.spoke.Types() {
		t := g.API.Type(d)
		if !t.IsRoot() || !g.spokes[0].pairs[t.Name] {
			continue
		}
		hub := g.hub.Type(t.Name).Type()
		there, back := g.function(t.Type(), hub), g.function(hub, t.Type())
		fmt.Fprintf(&cases, "t.Run(%q, func(t *$testing.T) { roundTripConversion(t, %s, %s) })\n",
			t.Name+" to the hub and back", there, back)
		fmt.Fprintf(&cases, "t.Run(%q, func(t *$testing.T) { roundTripConversion(t, %s, %s) })\n",
			t.Name+" of the hub to the spoke and back", back, there)
	}
	if cases.Len() == 0 {
		return nil, nil
	}
	fill := "$randfill.NewWithSeed(seed).NilChance(.3).NumElements(1, 3).MaxDepth(12).Funcs(conversionFuncs()...)"
	if g.testDeclares("fuzzFuncs") {
		fill += ".Funcs(fuzzFuncs()...)"
	}
	// The types of fields may be in any package.
	values, json := "", source.Packages["apiextensionsv1"].Path
	if imports(g.spoke, json) || slices.ContainsFunc(g.API.Packages, func(p *model.Package) bool {
		return imports(p.Package, json)
	}) {
		values = "func(v *$apiextensionsv1.JSON, _ $randfill.Continue) { v.Raw = []byte(`{\"a\":1}`) },\n"
	}
	f.Expand(`// Every object must survive the conversion to the other version and back. Seeds are fixed, so failures are reproducible.
func TestConversionsLoseNothing(t *$testing.T) {
`+cases.String()+`}

// roundTripConversion fills objects with random values, converts them there and back, and compares.
func roundTripConversion[A, B any](t *$testing.T, there func(*A, *B, $conversion.Scope) error, back func(*B, *A, $conversion.Scope) error) {
	t.Helper()
	for seed := range int64(200) {
		var in, out A
		var between B
		`+fill+`.Fill(&in)
		was, err := $json.Marshal(in)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := there(&in, &between, nil); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := back(&between, &out, nil); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		is, err := $json.Marshal(out)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !$bytes.Equal(was, is) {
			t.Fatalf("seed %d: %s", seed, conversionLoss(t, was, is))
		}
		if !$equality.Semantic.DeepEqual(in, out) {
			t.Fatalf("seed %d: a value was lost or changed that JSON does not show.\nbefore: %#v\nafter:  %#v", seed, in, out)
		}
	}
}

// conversionLoss returns the first fields of objects in JSON that differ, with both values.
func conversionLoss(t *$testing.T, was, is []byte) string {
	t.Helper()
	var before, after any
	for data, v := range map[*[]byte]*any{&was: &before, &is: &after} {
		if err := $json.Unmarshal(*data, v); err != nil {
			t.Fatal(err)
		}
	}
	var losses []string
	var compare func(path string, a, b any)
	compare = func(path string, a, b any) {
		switch a := a.(type) {
		case map[string]any:
			if b, ok := b.(map[string]any); ok {
				keys := $maps.Clone(a)
				$maps.Copy(keys, b)
				for _, k := range $slices.Sorted($maps.Keys(keys)) {
					compare(path+"."+k, a[k], b[k])
				}
				return
			}
		case []any:
			if b, ok := b.([]any); ok && len(a) == len(b) {
				for i := range a {
					compare($fmt.Sprintf("%s[%d]", path, i), a[i], b[i])
				}
				return
			}
		}
		if !$reflect.DeepEqual(a, b) {
			losses = append(losses, $fmt.Sprintf("%s was %v, and is %v after the conversion", path, a, b))
		}
	}
	compare("", before, after)
	if len(losses) == 0 {
		return "the JSON is not the same: " + string(was) + " and " + string(is) // such as an empty list
	}
	return $fmt.Sprintf("%d fields were lost or changed: %s", len(losses), losses[0])
}

// conversionFuncs returns generators of values of Kubernetes' types that JSON can represent.
func conversionFuncs() []any {
	return []any{
		func(v *$metav1.TypeMeta, _ $randfill.Continue) {}, // the scheme sets it
		func(v *$metav1.Time, c $randfill.Continue)     { *v = $metav1.Unix(int64(c.Int31()), 0) },
		func(v *$metav1.MicroTime, c $randfill.Continue) { *v = $metav1.NewMicroTime($time.Unix(int64(c.Int31()), 0)) },
		func(v *$resource.Quantity, c $randfill.Continue) { *v = *$resource.NewQuantity(int64(c.Int31()), $resource.DecimalSI) },
		func(v *$intstr.IntOrString, c $randfill.Continue) {
			if *v = $intstr.FromInt32(c.Int31()); c.Bool() {
				*v = $intstr.FromString(c.String(8))
			}
		},
		func(v *$runtime.RawExtension, c $randfill.Continue) { v.Raw, v.Object = []byte(`+"`{\"a\":1}`"+`), nil },
		func(v *$metav1.FieldsV1, _ $randfill.Continue) { _ = v.UnmarshalJSON([]byte("{}")) }, // a string in some builds
`+values+`	}
}
`, nil)
	return f.Bytes(source.Options{Header: g.Header})
}

// testDeclares reports whether a test file of the package declares a function. The loader does not
// read test files.
func (g *generator) testDeclares(name string) bool {
	files, err := filepath.Glob(filepath.Join(g.Package.Dir, "*_test.go"))
	if err != nil {
		return false
	}
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && bytes.Contains(data, []byte("\nfunc "+name+"(")) {
			return true
		}
	}
	return false
}
