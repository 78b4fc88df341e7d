package store_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/disk"
	"kelson.dev/apiserver/store/encrypted"
	"kelson.dev/internal/require"
)

const plain = "correct horse battery staple"

// config writes an EncryptionConfiguration of providers, such as "aescbc:key1" or "identity", for
// resources.
func config(t *testing.T, file string, resources string, providers ...string) {
	t.Helper()
	var out strings.Builder
	fmt.Fprintf(&out, "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [%s]\n  providers:\n", resources)
	for _, p := range providers {
		kind, key, ok := strings.Cut(p, ":")
		if !ok {
			fmt.Fprintf(&out, "  - %s: {}\n", kind)
			continue
		}
		secret := bytes.Repeat([]byte(key), 32)[:32]
		fmt.Fprintf(&out, "  - %s: {keys: [{name: %s, secret: %s}]}\n", kind, key,
			base64.StdEncoding.EncodeToString(secret))
	}
	require.NoError(t, os.WriteFile(file, []byte(out.String()), 0o600))
}

func openEncrypted(dir, file string) (*store.Store, error) {
	backend, err := disk.Open(dir)
	if err != nil {
		return nil, err
	}
	if backend, err = encrypted.Open(backend, encrypted.Config{File: file}); err != nil {
		return nil, err
	}
	return store.Open(store.Config{Backend: backend})
}

func putEncrypted(t *testing.T, s *store.Store, resource, name, value string) {
	t.Helper()
	data := fmt.Appendf(nil, `{"metadata":{"name":%q,"namespace":"lab","resourceVersion":"1"},"value":%q}`, name, value)
	key := store.Key{Resource: resource, Namespace: "lab", Name: name}
	_, err := s.Commit(t.Context(), store.Op{Key: key, Data: data, Expect: store.AnyRevision})
	require.NoError(t, err)
}

func holds(t *testing.T, s *store.Store, resource, name string) bool {
	t.Helper()
	obj := s.Snapshot().Get(store.Key{Resource: resource, Namespace: "lab", Name: name})
	return obj != nil && bytes.Contains(obj.Data, []byte(plain))
}

// onDisk returns the contents of all files in a directory.
func onDisk(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var all strings.Builder
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		all.Write(data)
	}
	return all.String()
}

func TestNoPlaintextOnDisk(t *testing.T) {
	for _, provider := range []string{"aescbc:key1", "aesgcm:key1", "secretbox:key1"} {
		t.Run(provider, func(t *testing.T) {
			dir, file := t.TempDir(), filepath.Join(t.TempDir(), "encryption.yaml")
			config(t, file, "secrets, '*.apps'", provider, "identity")
			s, err := openEncrypted(dir, file)
			require.NoError(t, err)
			putEncrypted(t, s, "secrets", "hidden", plain)
			putEncrypted(t, s, "deployments.apps", "hidden", plain)
			if !holds(t, s, "secrets", "hidden") {
				t.Error("the object in memory is encrypted")
			}
			if raw := onDisk(t, dir); strings.Contains(raw, plain) || strings.Contains(raw, `"value"`) ||
				!strings.Contains(raw, "k8s:enc:"+strings.Replace(provider, ":", ":v1:", 1)+":") {
				t.Error("the disk has unencrypted values, or no encrypted ones")
			}
			putEncrypted(t, s, "configmaps", "shown", plain)
			if !strings.Contains(onDisk(t, dir), plain) {
				t.Error("a resource that is not named is not encrypted")
			}
			require.NoError(t, s.Close())
			if s, err = openEncrypted(dir, file); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for _, resource := range []string{"secrets", "deployments.apps"} {
				if !holds(t, s, resource, "hidden") {
					t.Error("not read back: " + resource)
				}
			}
		})
	}
}

// With a wrong key, the start fails, names the object and loses nothing.
func TestWrongKeys(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "encryption.yaml")
	config(t, file, "secrets", "aescbc:key1")
	s, err := openEncrypted(dir, file)
	require.NoError(t, err)
	putEncrypted(t, s, "secrets", "hidden", plain)
	s.Close()
	before := onDisk(t, dir)
	for name, providers := range map[string][]string{"another key": {"aescbc:key2"}, "none": {"identity"},
		"another kind": {"secretbox:key1"}} {
		config(t, file, "secrets", providers...)
		if _, err := openEncrypted(dir, file); err == nil || !strings.Contains(err.Error(), "secrets lab/hidden") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := openEncrypted(dir, ""); err == nil || !strings.Contains(err.Error(), "--encryption-provider-config") {
		t.Errorf("without a configuration: %v", err)
	}
	if onDisk(t, dir) != before {
		t.Error("the disk was changed")
	}
	config(t, file, "secrets", "aescbc:key1")
	if s, err = openEncrypted(dir, file); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !holds(t, s, "secrets", "hidden") {
		t.Error("lost")
	}
}

// After the next write, plain values are encrypted, and values under a former key are encrypted
// with the new one.
func TestRotation(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "encryption.yaml")
	s, err := openEncrypted(dir, "")
	require.NoError(t, err)
	putEncrypted(t, s, "secrets", "hidden", plain)
	s.Close()
	config(t, file, "secrets", "aescbc:key1", "identity")
	if s, err = openEncrypted(dir, file); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	until(t, s, dir, "k8s:enc:aescbc:v1:key1:", plain)
	config(t, file, "secrets", "secretbox:key2", "aescbc:key1") // while it runs
	until(t, s, dir, "k8s:enc:secretbox:v1:key2:", "k8s:enc:aescbc:v1:key1:")
	s.Close()
	config(t, file, "secrets", "secretbox:key2")
	if s, err = openEncrypted(dir, file); err != nil {
		t.Fatal(err)
	}
	if !holds(t, s, "secrets", "hidden") {
		t.Error("lost")
	}
	s.Close()
	config(t, file, "secrets", "secretbox:key2", "nothing")
	if _, err := openEncrypted(dir, file); err == nil || !strings.Contains(err.Error(), "--encryption-provider-config") {
		t.Errorf("open with an invalid configuration: %v", err)
	}
}

// until waits until the disk contains one string and not another. The state is written concurrently
// with writes.
func until(t *testing.T, s *store.Store, dir, has, hasNot string) {
	t.Helper()
	for n := range 12_000 {
		if n%100 == 0 { // several times: a write starts no checkpoint while one is running
			putEncrypted(t, s, "configmaps", "any", strconv.Itoa(n))
		}
		time.Sleep(10 * time.Millisecond)
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		var all []byte
		for _, e := range entries {
			data, _ := os.ReadFile(filepath.Join(dir, e.Name())) // the file may have been removed
			all = append(all, data...)
		}
		if bytes.Contains(all, []byte(has)) && !bytes.Contains(all, []byte(hasNot)) {
			return
		}
	}
	t.Fatalf("the disk does not hold %q, or still %q", has, hasNot)
}
