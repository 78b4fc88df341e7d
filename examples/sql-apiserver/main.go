// Command sql-apiserver serves the rows of an SQLite table as objects. Other programs can write to
// the database at the same time; watches report their changes immediately.
package main

import (
	"context"
	"database/sql"
	"log"

	"k8s.io/apimachinery/pkg/util/validation/field"
	_ "modernc.org/sqlite" // the driver

	"kelson.dev/apiserver"

	"kelson.dev/examples/sql-apiserver/v1alpha1"
)

// API describes a server for the table ingredients of a database.
func API(db *sql.DB) apiserver.Part {
	return apiserver.Group("kitchen.example.com",
		apiserver.Kind(&v1alpha1.Ingredient{}, apiserver.ClusterScoped(), rules{}, apiserver.From(&table{db}, 0)))
}

type rules struct{}

func (rules) Validate(_ context.Context, in *v1alpha1.Ingredient) (errs field.ErrorList) {
	if in.Spec.Amount < 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "amount"), in.Spec.Amount, "must not be negative"))
	}
	return errs
}

func (rules) Columns() []apiserver.Column[*v1alpha1.Ingredient] {
	return []apiserver.Column[*v1alpha1.Ingredient]{
		{Name: "Amount", Type: "integer", Value: func(in *v1alpha1.Ingredient) any { return in.Spec.Amount }},
		{Name: "Unit", Value: func(in *v1alpha1.Ingredient) any { return in.Spec.Unit }},
	}
}

func main() {
	db, err := open("kitchen.db")
	if err != nil {
		log.Fatal(err)
	}
	apiserver.Main(API(db))
}
