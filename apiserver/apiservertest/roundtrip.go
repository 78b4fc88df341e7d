package apiservertest

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/diff"
	"sigs.k8s.io/randfill"

	"kelson.dev/apiserver"
	"kelson.dev/internal/require"
)

// RoundTrip fails the test if a conversion loses a field: it fills objects at random and converts
// them from the spoke to the hub and back, and from the hub to the spoke and back. The result must
// equal the object, apart from empty and missing lists and maps. Functions in fill, of the forms
// that sigs.k8s.io/randfill takes, restrict the random values to those of valid objects:
//
//	fill := func(t *v1beta1.PizzaTopping, c randfill.Continue) {
//		t.Name, t.Quantity = c.String(10), 1+c.Int31n(10)
//	}
//	apiservertest.RoundTrip(t, &v1alpha1.Pizza{}, &v1beta1.Pizza{}, fill)
//
// A failure names the seed; it is constant, so that the test is repeatable.
func RoundTrip[H any, S apiserver.Spoke[H]](t testing.TB, spoke S, hub H, fill ...any) {
	t.Helper()
	const rounds, seed = 500, 1
	filler := randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
		append([]any{skipTypeMeta, fillMetadata}, fill...)...)
	newSpoke := func() S { return reflect.New(reflect.TypeOf(spoke).Elem()).Interface().(S) }
	newHub := func() H { return reflect.New(reflect.TypeOf(hub).Elem()).Interface().(H) }
	for round := range rounds {
		before, after, through := newSpoke(), newSpoke(), newHub()
		filler.Fill(before)
		check(t, before.DeepCopyObject().(S).ConvertTo(through), after.ConvertFrom(through))
		if !same(t, "spoke", round, before, after) {
			return
		}
		begin, end, middle := newHub(), newHub(), newSpoke()
		filler.Fill(begin)
		original := any(begin).(runtime.Object).DeepCopyObject()
		check(t, middle.ConvertFrom(begin), middle.ConvertTo(end))
		if !same(t, "hub", round, original, any(end).(runtime.Object)) {
			return
		}
	}
}

func check(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

// same compares the first object with the result of two conversions.
func same(t testing.TB, what string, round int, want, got runtime.Object) bool {
	t.Helper()
	for _, obj := range []runtime.Object{want, got} {
		if object, err := meta.TypeAccessor(obj); err == nil {
			object.SetAPIVersion("")
			object.SetKind("")
		}
	}
	if equality.Semantic.DeepEqual(want, got) {
		return true
	}
	t.Errorf("the %s %T changed in round %d of seed 1 (- before, + after):\n%s", what, want, round,
		diff.Diff(want, got))
	return false
}

// skipTypeMeta leaves apiVersion and kind empty.
func skipTypeMeta(*metav1.TypeMeta, randfill.Continue) {}

// fillMetadata fills the metadata that conversions could lose, except fields for which random
// values are invalid.
func fillMetadata(m *metav1.ObjectMeta, c randfill.Continue) {
	m.Name, m.Namespace = c.String(8), c.String(8)
	m.Generation = c.Int63n(10)
	if c.Bool() {
		m.Labels = map[string]string{c.String(4): c.String(4)}
		m.Annotations = map[string]string{c.String(4): c.String(4)}
		m.Finalizers = []string{c.String(4)}
	}
}
