package main

import (
	"database/sql"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// server runs the newest installed PostgreSQL on a Unix socket, and returns the URL of its
// database. PostgreSQL refuses to run as root, so as root the test runs it as the user that
// Debian's package creates.
func server(t *testing.T) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is valid
	if len(found) == 0 {
		if os.Getenv("NEED_POSTGRES") != "" {
			t.Fatal("no PostgreSQL: apt-get install postgresql")
		}
		t.Skip("SKIPPED: no PostgreSQL: apt-get install postgresql")
	}
	slices.Sort(found)
	bin := filepath.Dir(found[len(found)-1])
	dir, err := os.MkdirTemp("", "sql-apiserver") // other users cannot access t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	as := &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		account, err := user.Lookup("postgres")
		if err != nil {
			t.Fatal(err)
		}
		uid, _ := strconv.Atoi(account.Uid) // a user id is a number on Unix
		gid, _ := strconv.Atoi(account.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
		as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir, cmd.SysProcAttr = dir, as
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := command("initdb", "-D", data, "-A", "trust", "-U", "cook",
		"--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v: %s", err, out)
	}
	cmd := command("postgres", "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT) // ends connections
		_ = cmd.Wait()
	})
	at := url.URL{Scheme: "postgres", Path: "/postgres", RawQuery: url.Values{"host": {dir}, "user": {"cook"}}.Encode()}
	db, err := sql.Open("pgx", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// poll, because virtual time does not cover other processes
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if err = db.Ping(); err == nil {
			return at.String()
		}
		if time.Since(begin) > time.Minute {
			t.Fatal(err)
		}
	}
}

// Rows of PostgreSQL are objects, with notifications by LISTEN.
func TestPostgres(t *testing.T) {
	at := server(t)
	for range 2 { // the second call finds an existing table and trigger
		rows, err := openPostgres(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { rows.Close() })
		other, err := sql.Open("pgx", at)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { other.Close() })
		testTable(t, rows, other)
	}
}
