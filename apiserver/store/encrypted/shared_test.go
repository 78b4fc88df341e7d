package encrypted_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/disk"
	"kelson.dev/apiserver/store/encrypted"
	"kelson.dev/apiserver/store/storetest"
)

func path(k store.Key) string {
	return strings.Join([]string{"/registry", k.Resource, k.Namespace, k.Name}, "/")
}

func openShared(log *storetest.Log, file string) (*store.Store, error) {
	shared, err := encrypted.OpenShared(log.Shared(false), encrypted.Config{File: file}, path)
	if err != nil {
		return nil, err
	}
	return store.Open(store.Config{Shared: shared, Log: slog.New(slog.DiscardHandler)})
}

// storedValue returns the value that the log has for a key.
func storedValue(t *testing.T, log *storetest.Log, resource, name string) (value string) {
	t.Helper()
	_, err := log.Shared(false).Load(t.Context(), func(r store.Record) error {
		if r.Key == (store.Key{Resource: resource, Namespace: "lab", Name: name}) {
			value = string(r.Data)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// All servers encrypt and decrypt the values of a shared log. A server without the key reports that
// it lacks the key, and never serves a wrong state.
func TestShared(t *testing.T) {
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	config(t, file, "secrets", "aesgcm:key1", "identity")
	log := storetest.NewLog()
	a, err := openShared(log, file)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	lacking := filepath.Join(t.TempDir(), "other.yaml")
	config(t, lacking, "secrets", "aesgcm:other", "identity")
	b, err := openShared(log, lacking)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()

	put(t, a, "configmaps", "open", plain)
	put(t, a, "secrets", "hidden", plain)
	if value := storedValue(t, log, "secrets", "hidden"); !strings.HasPrefix(value, "k8s:enc:aesgcm:v1:key1:") ||
		strings.Contains(value, plain) {
		t.Errorf("the log has %q", value)
	}
	if value := storedValue(t, log, "configmaps", "open"); !strings.Contains(value, plain) {
		t.Errorf("the log has %q", value)
	}
	if !holds(t, a, "secrets", "hidden") {
		t.Error("the server that wrote it cannot read it")
	}

	// b stays at the state before the value that it cannot read, and reports that it does not have
	// the newest state.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if sn, err := b.Fresh(ctx); err == nil {
		t.Errorf("a state at %d counts as complete", sn.Revision())
	}
	if _, err := openShared(log, lacking); err == nil || !strings.Contains(err.Error(), "secrets lab/hidden") {
		t.Errorf("opened without the key: %v", err)
	}
	if _, err := openShared(log, ""); err == nil ||
		!strings.Contains(err.Error(), "pass --encryption-provider-config") {
		t.Errorf("opened without a configuration: %v", err)
	}

	// Another server with the key reads it; a substituted value is rejected.
	c, err := openShared(log, file)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !holds(t, c, "secrets", "hidden") {
		t.Error("another server with the key can't read it")
	}
	moved := store.Op{Key: store.Key{Resource: "secrets", Namespace: "lab", Name: "moved"},
		Data: []byte(storedValue(t, log, "secrets", "hidden"))}
	if _, ok, err := log.Shared(false).Commit(t.Context(), []store.Op{moved}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if _, err := openShared(log, file); err == nil || !strings.Contains(err.Error(), "secrets lab/moved") {
		t.Errorf("a value was taken under another key: %v", err)
	}
}

// CheckWith reads an encrypted directory with its keys; Check reports that values are encrypted.
func TestCheck(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "encryption.yaml")
	config(t, file, "'*.*'", "secretbox:key1")
	s, err := open(dir, file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		put(t, s, "secrets", fmt.Sprint("s", i), plain)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check := func(file string) (disk.Report, error) {
		decrypt, end, err := encrypted.Reader(encrypted.Config{File: file})
		if err != nil {
			t.Fatal(err)
		}
		defer end()
		return disk.CheckWith(dir, decrypt)
	}
	if r, err := check(file); err != nil || r.Objects != 3 {
		t.Errorf("%v, %v", r, err)
	}
	if _, err := check(""); err == nil || !strings.Contains(err.Error(), "pass --encryption-provider-config") {
		t.Errorf("checked without the keys: %v", err)
	}
}
