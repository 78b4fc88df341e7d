package store_test

import (
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
)

func openDerived(t testing.TB) *store.Store {
	st := storetest.New(t, store.Config{})
	return st
}

func putDerived(t testing.TB, st *store.Store, namespace, name, data string) {
	body := fmt.Appendf(nil, `{"metadata":{"name":%q,"namespace":%q},"data":%s}`, name, namespace, data)
	op := store.Op{Key: store.Key{Resource: "configmaps", Namespace: namespace, Name: name}, Data: body,
		Expect: store.AnyRevision}
	_, err := st.Commit(t.Context(), op)
	require.NoError(t, err)
}

func TestReads(t *testing.T) {
	st := openDerived(t)
	putDerived(t, st, "x", "a", `{"k":"1"}`)
	putDerived(t, st, "x", "b", `{"k":2}`)
	putDerived(t, st, "y", "c", `{"k":"3"}`)
	sn := st.Snapshot()
	one, err := derived.Get[corev1.ConfigMap](sn, "configmaps", "x", "a")
	if err != nil || one.Data["k"] != "1" || one.ResourceVersion != "2" {
		t.Errorf("%v %v", one, err)
	}
	if again, _ := derived.Get[corev1.ConfigMap](sn, "configmaps", "x", "a"); again != one {
		t.Error("decoded twice")
	}
	obj := sn.Get(store.Key{Resource: "configmaps", Namespace: "x", Name: "a"})
	own, err := derived.Decode[corev1.ConfigMap](obj)
	if err != nil || own == one || !reflect.DeepEqual(own, one) {
		t.Errorf("decoded for one reader: %v %v, want %v", own, err, one)
	}
	own.Data["k"] = "changed"
	if again, _ := derived.Of[corev1.ConfigMap](obj); again.Data["k"] != "1" {
		t.Error("a reader's own object is shared")
	}
	if _, err := derived.Get[corev1.ConfigMap](sn, "configmaps", "x", "missing"); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if _, err := derived.Get[corev1.ConfigMap](sn, "configmaps", "x", "b"); err == nil {
		t.Error("a number was read as a string")
	}
	var names []string
	failed := 0
	for cm, err := range derived.List[corev1.ConfigMap](sn, "configmaps", "") {
		if err != nil {
			failed++
			continue
		}
		names = append(names, cm.Name)
	}
	if fmt.Sprint(names) != "[a c]" || failed != 1 {
		t.Error(names, failed)
	}
}

func TestView(t *testing.T) {
	st := openDerived(t)
	computed := 0
	v := derived.NewView(st, func(sn *store.Snapshot) (int, error) {
		computed++
		return sn.Count("configmaps", ""), nil
	}, "configmaps")
	want := func(value, times int) {
		t.Helper()
		if got, err := v.Get(); got != value || err != nil || computed != times {
			t.Errorf("%d %v, computed %d times; want %d, %d times", got, err, computed, value, times)
		}
	}
	want(0, 1)
	want(0, 1)
	putDerived(t, st, "x", "a", `{}`)
	want(1, 2)
	_, err := st.Commit(t.Context(), store.Op{Key: store.Key{Resource: "others", Name: "o"},
		Data: []byte(`{"metadata":{}}`)})
	require.NoError(t, err)
	want(1, 2)
	putDerived(t, st, "x", "b", `{}`)
	want(2, 3)

	fork := st.Snapshot().Fork()
	defer fork.Close()
	view := derived.NewView(fork, func(sn *store.Snapshot) (int, error) {
		return sn.Count("configmaps", ""), nil
	}, "configmaps")
	if n, err := view.Get(); n != 2 || err != nil {
		t.Error(n, err)
	}
}
