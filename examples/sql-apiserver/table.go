package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/examples/sql-apiserver/v1alpha1"
)

// open opens a database and creates the table.
func open(file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
	if err != nil {
		return nil, err
	}
	_, err = db.Exec(`CREATE TABLE IF NOT EXISTS ingredients (
		name TEXT PRIMARY KEY, amount INTEGER NOT NULL, unit TEXT NOT NULL DEFAULT '', created INTEGER NOT NULL DEFAULT (unixepoch()))`)
	return db, err
}

// table is the source of Ingredients.
type table struct{ *sql.DB }

var resource = schema.GroupResource{Group: "kitchen.example.com", Resource: "ingredients"}

// List returns all rows.
func (t *table) List(ctx context.Context) (all []*v1alpha1.Ingredient, err error) {
	rows, err := t.QueryContext(ctx, "SELECT name, amount, unit, created FROM ingredients")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var in v1alpha1.Ingredient
		var created int64
		if err := rows.Scan(&in.Name, &in.Spec.Amount, &in.Spec.Unit, &created); err != nil {
			return nil, err
		}
		in.CreationTimestamp = metav1.Unix(created, 0)
		all = append(all, &in)
	}
	return all, rows.Err()
}

// Create inserts a row. The table has columns only for the spec, so Create rejects labels and other
// metadata instead of dropping them.
func (t *table) Create(ctx context.Context, in *v1alpha1.Ingredient) error {
	if err := plain(in); err != nil {
		return err
	}
	n, err := t.exec(ctx, "INSERT INTO ingredients (name, amount, unit, created) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
		in.Name, in.Spec.Amount, in.Spec.Unit, in.CreationTimestamp.Unix())
	if err == nil && n == 0 {
		return apierrors.NewAlreadyExists(resource, in.Name)
	}
	return err
}

// Update changes a row if it still has the values that the client read.
func (t *table) Update(ctx context.Context, in, old *v1alpha1.Ingredient) error {
	if err := plain(in); err != nil {
		return err
	}
	n, err := t.exec(ctx, "UPDATE ingredients SET amount = ?, unit = ? WHERE name = ? AND amount = ? AND unit = ?",
		in.Spec.Amount, in.Spec.Unit, in.Name, old.Spec.Amount, old.Spec.Unit)
	if err == nil && n == 0 {
		return apierrors.NewConflict(resource, in.Name, fmt.Errorf("the row was changed or deleted by another program"))
	}
	return err
}

// Delete deletes a row.
func (t *table) Delete(ctx context.Context, in *v1alpha1.Ingredient) error {
	_, err := t.exec(ctx, "DELETE FROM ingredients WHERE name = ?", in.Name)
	return err
}

func (t *table) exec(ctx context.Context, query string, args ...any) (int64, error) {
	result, err := t.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func plain(in *v1alpha1.Ingredient) error {
	if len(in.Labels)+len(in.Annotations)+len(in.Finalizers)+len(in.OwnerReferences) > 0 {
		return apierrors.NewBadRequest("ingredients have no labels, annotations, finalizers and owners")
	}
	return nil
}

// Notify reports writes of other connections and processes. It polls SQLite's counter of such
// writes (PRAGMA data_version).
func (t *table) Notify(ctx context.Context, changed func()) error {
	conn, err := t.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for seen := int64(-1); ; {
		var version int64
		if err := conn.QueryRowContext(ctx, "PRAGMA data_version").Scan(&version); err != nil {
			return err
		}
		if version != seen {
			seen = version
			changed()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
}
