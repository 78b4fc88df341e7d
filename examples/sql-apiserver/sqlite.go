package main

import (
	"context"
	"database/sql"
	"time"

	_ "modernc.org/sqlite" // the driver
)

// sqlite is the table in a file.
type sqlite struct{ *table }

// openSQLite opens a database and creates the table.
func openSQLite(ctx context.Context, file string) (sqlite, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
	if err != nil {
		return sqlite{}, err
	}
	t := sqlite{&table{db, func(query string) string { return query }}}
	return t, t.create(ctx, "unixepoch()")
}

// Notify reports writes of other connections and processes: SQLite counts such writes for each
// connection.
func (t sqlite) Notify(ctx context.Context, changed func()) error {
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
