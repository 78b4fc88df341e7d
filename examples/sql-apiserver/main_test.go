package main

import (
	"database/sql"
	"path/filepath"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"kelson.dev/apiserver/apiservertest"
)

var ingredients = schema.GroupVersionResource{Group: "kitchen.example.com", Version: "v1alpha1",
	Resource: "ingredients"}

func flour(amount int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kitchen.example.com/v1alpha1", "kind": "Ingredient", "metadata": map[string]any{"name": "flour"},
		"spec": map[string]any{"amount": amount, "unit": "g"},
	}}
}

// Rows of SQLite are objects.
func TestSQLite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kitchen.db")
	rows, err := openSQLite(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	other, err := openSQLite(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	testTable(t, rows, other.DB)
}

// testTable checks that writes of clients reach the table, and that those of other programs reach
// watches.
func testTable(t *testing.T, rows source, other *sql.DB) {
	env := apiservertest.New(t, API(rows))
	in := env.Dynamic(t).Resource(ingredients)
	ctx := t.Context()
	w, err := in.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	event := func(typ watch.EventType, amount int64) {
		t.Helper()
		e := <-w.ResultChan()
		u, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("event: %v", e)
		}
		if got, _, _ := unstructured.NestedInt64(u.Object, "spec", "amount"); e.Type != typ || got != amount {
			t.Errorf("event %s %d, want %s %d", e.Type, got, typ, amount)
		}
	}
	if _, err := in.Create(ctx, flour(500), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	event(watch.Added, 500)
	if _, err := in.Patch(ctx, "flour", types.MergePatchType, []byte(`{"spec":{"amount":400}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	event(watch.Modified, 400)
	if _, err := in.Patch(ctx, "flour", types.MergePatchType, []byte(`{"spec":{"amount":-1}}`),
		metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("negative: %v", err)
	}
	if _, err := in.Patch(ctx, "flour", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`),
		metav1.PatchOptions{}); !apierrors.IsBadRequest(err) {
		t.Errorf("labels: %v", err)
	}

	// Write as another program does.
	if _, err := other.Exec("UPDATE ingredients SET amount = 300"); err != nil {
		t.Fatal(err)
	}
	event(watch.Modified, 300)
	kept, err := in.Get(ctx, "flour", metav1.GetOptions{})
	if err != nil || len(kept.GetManagedFields()) == 0 || kept.GetUID() == "" {
		t.Errorf("after another program's write: %v, %v", kept, err)
	}
	if err := in.Delete(ctx, "flour", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	event(watch.Deleted, 300)
	var left int
	if err := other.QueryRow("SELECT count(*) FROM ingredients").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d rows, %v", left, err)
	}
}
