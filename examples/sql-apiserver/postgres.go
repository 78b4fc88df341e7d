package main

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver
)

// postgres is the table on a server.
type postgres struct {
	*table
	url string
}

// openPostgres connects to a database, and creates the table and a trigger that notifies of writes.
func openPostgres(ctx context.Context, url string) (postgres, error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return postgres{}, err
	}
	t := postgres{&table{db, numbered}, url}
	if err := t.create(ctx, "extract(epoch from now())::bigint"); err != nil {
		return t, err
	}
	for _, statement := range []string{
		`CREATE OR REPLACE FUNCTION ingredients_changed() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN NOTIFY ingredients; RETURN NULL; END'`,
		`CREATE OR REPLACE TRIGGER ingredients_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON ingredients
			FOR EACH STATEMENT EXECUTE FUNCTION ingredients_changed()`,
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return t, err
		}
	}
	return t, nil
}

// Notify reports writes: the server sends a notification when a transaction with one commits.
func (t postgres) Notify(ctx context.Context, changed func()) error {
	conn, err := pgx.Connect(ctx, t.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "LISTEN ingredients"); err != nil {
		return err
	}
	changed() // report the writes before the subscription
	for {
		if _, err := conn.WaitForNotification(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		changed()
	}
}
