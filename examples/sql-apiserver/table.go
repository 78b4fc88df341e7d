package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kelson.dev/apiserver"

	"kelson.dev/examples/sql-apiserver/v1alpha1"
)

// source is a table that reports writes; sqlite and postgres are its implementations.
type source interface {
	apiserver.Source[*v1alpha1.Ingredient]
	apiserver.Notifier
}

// table reads and writes rows. Its statements have the placeholders that bind returns.
type table struct {
	*sql.DB
	bind func(query string) string
}

// create creates the table, whose column created has seconds since 1970.
func (t *table) create(ctx context.Context, now string) error {
	_, err := t.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS ingredients (
		name TEXT PRIMARY KEY, amount BIGINT NOT NULL, unit TEXT NOT NULL DEFAULT '', created BIGINT NOT NULL DEFAULT (`+now+`))`)
	return err
}

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

// Create inserts a row. The table has columns only for the spec, so Create rejects labels,
// annotations, finalizers and owners instead of dropping them.
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

// Update changes a row, if it still has the values that the client saw.
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
	result, err := t.ExecContext(ctx, t.bind(query), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// numbered replaces the placeholders ? by $1, $2 and so on.
func numbered(query string) string {
	parts := strings.Split(query, "?")
	for i := range parts[1:] {
		parts[i] += fmt.Sprintf("$%d", i+1)
	}
	return strings.Join(parts, "")
}

func plain(in *v1alpha1.Ingredient) error {
	if len(in.Labels)+len(in.Annotations)+len(in.Finalizers)+len(in.OwnerReferences) > 0 {
		return apierrors.NewBadRequest("ingredients have no labels, annotations, finalizers and owners")
	}
	return nil
}
