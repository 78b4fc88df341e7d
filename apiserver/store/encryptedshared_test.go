package store_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/disk"
	"kelson.dev/apiserver/store/encrypted"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
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
	require.NoError(t, err)
	return value
}

// cause returns why a store cannot read an object, or nil.
func cause(t *testing.T, s *store.Store, resource, name string) error {
	t.Helper()
	sn, err := s.Fresh(t.Context())
	require.NoError(t, err)
	obj := sn.Get(store.Key{Resource: resource, Namespace: "lab", Name: name})
	if obj == nil {
		t.Fatalf("no object %s/%s", resource, name)
	}
	return obj.Unreadable()
}

// All servers encrypt and decrypt the values of a shared log. In a server without the key, the
// value alone cannot be read, with an error that names it, until the server has the key.
func TestShared(t *testing.T) { synctest.Test(t, testShared) }

func testShared(t *testing.T) {
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	config(t, file, "secrets", "aesgcm:key1", "identity")
	log := storetest.NewLog()
	a, err := openShared(log, file)
	require.NoError(t, err)
	defer a.Close()
	lacking := filepath.Join(t.TempDir(), "other.yaml")
	config(t, lacking, "secrets", "aesgcm:other", "identity")
	b, err := openShared(log, lacking)
	require.NoError(t, err)
	defer b.Close()

	putEncrypted(t, a, "configmaps", "open", plain)
	putEncrypted(t, a, "secrets", "hidden", plain)
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

	// Without the key, b cannot read the value, and everything else can be used: after it has
	// followed the log, and after it has loaded it.
	d, err := openShared(log, lacking)
	require.NoError(t, err)
	defer d.Close()
	for _, s := range []*store.Store{b, d} {
		if err := cause(t, s, "secrets", "hidden"); err == nil || !strings.Contains(err.Error(), "secrets lab/hidden") {
			t.Errorf("an object without its key: %v", err)
		}
		if !holds(t, s, "configmaps", "open") {
			t.Error("another object cannot be read")
		}
		putEncrypted(t, s, "configmaps", "open", plain)
	}
	if _, err := openShared(log, ""); err == nil ||
		!strings.Contains(err.Error(), "pass --encryption-provider-config") {
		t.Errorf("opened without a configuration: %v", err)
	}

	// Another server with the key reads it; a substituted value is rejected.
	c, err := openShared(log, file)
	require.NoError(t, err)
	defer c.Close()
	if !holds(t, c, "secrets", "hidden") {
		t.Error("another server with the key can't read it")
	}
	moved := store.Op{Key: store.Key{Resource: "secrets", Namespace: "lab", Name: "moved"},
		Data: []byte(storedValue(t, log, "secrets", "hidden"))}
	if _, ok, err := log.Shared(false).Commit(t.Context(), []store.Op{moved}); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if err := cause(t, c, "secrets", "moved"); err == nil || !strings.Contains(err.Error(), "secrets lab/moved") {
		t.Errorf("a value was taken under another key: %v", err)
	}
	hidden := store.Key{Resource: "secrets", Namespace: "lab", Name: "moved"}
	if _, err := c.Commit(t.Context(), store.Op{Key: hidden, Expect: store.AnyRevision}); err != nil {
		t.Errorf("delete an object that cannot be read: %v", err)
	}

	// The key makes the value readable without a restart.
	config(t, lacking, "secrets", "aesgcm:other", "aesgcm:key1", "identity")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, s := range []*store.Store{b, d} {
		for cause(t, s, "secrets", "hidden") != nil {
			if ctx.Err() != nil {
				t.Fatal("the value cannot be read with its key")
			}
			time.Sleep(time.Second)
		}
		if !holds(t, s, "secrets", "hidden") {
			t.Error("the value is not the one that was written")
		}
	}
}

// CheckWith reads an encrypted directory with its keys; Check reports that values are encrypted.
func TestCheck(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "encryption.yaml")
	config(t, file, "'*.*'", "secretbox:key1")
	s, err := openEncrypted(dir, file)
	require.NoError(t, err)
	for i := range 3 {
		putEncrypted(t, s, "secrets", fmt.Sprint("s", i), plain)
	}
	require.NoError(t, s.Close())
	check := func(file string) (disk.Report, error) {
		decrypt, end, err := encrypted.Reader(encrypted.Config{File: file})
		require.NoError(t, err)
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
