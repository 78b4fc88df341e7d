// Command sql-apiserver serves the rows of a table as a kind: in the PostgreSQL database that the
// environment variable DATABASE_URL names, or in the SQLite file kitchen.db. Other programs may
// write to the database at the same time; watches receive these writes immediately.
package main

import (
	"context"
	"log"
	"os"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"kelson.dev/apiserver"

	"kelson.dev/examples/sql-apiserver/v1alpha1"
)

// API describes a server for the table ingredients of a database.
func API(rows source) apiserver.Part {
	return apiserver.Group("kitchen.example.com",
		apiserver.Kind(&v1alpha1.Ingredient{}, apiserver.ClusterScoped(), rules{}, apiserver.From(rows, 0)))
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
	rows, err := open(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	apiserver.Main(API(rows))
}

func open(ctx context.Context) (source, error) {
	if url := os.Getenv("DATABASE_URL"); url != "" {
		return openPostgres(ctx, url)
	}
	return openSQLite(ctx, "kitchen.db")
}
