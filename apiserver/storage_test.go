package apiserver_test

import (
	"bytes"
	"context"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/apiserver"
	"kelson.dev/apiserver/store"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// records is a storage of the caller: a map in memory that outlives servers.
type records struct {
	at   uint64
	have map[store.Key]store.Record
}

func (r *records) Load(each func(store.Record) error) (uint64, error) {
	for _, record := range r.have {
		if err := each(record); err != nil {
			return 0, err
		}
	}
	return r.at, nil
}

func (r *records) Append(all []store.Record) error {
	for _, record := range all {
		r.at = record.Revision
		if record.Data == nil {
			delete(r.have, record.Key)
			continue
		}
		record.Data = bytes.Clone(record.Data)
		r.have[record.Key] = record
	}
	return nil
}

func (*records) Checkpoint() func(context.Context, iter.Seq[store.Record]) error { return nil }
func (*records) Close() error                                                    { return nil }

// A new server over the same storage has the objects of the previous server.
func TestStorage(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "encryption.yaml")
	err := os.WriteFile(key, []byte(`{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","resources":[{"resources":["*.*"],
"providers":[{"aescbc":{"keys":[{"name":"k","secret":"MDEyMzQ1Njc4OWFiY2RlZg=="}]}}]}]}`), 0o600)
	require.NoError(t, err)
	own := &records{have: map[store.Key]store.Record{}}
	for name, open := range map[string]apiserver.OpenStore{
		"disk":      apiserver.Disk(filepath.Join(dir, "plain")),
		"encrypted": apiserver.Encrypted(key, apiserver.Disk(filepath.Join(dir, "secret"))),
		"own":       apiserver.Backend(func() (store.Backend, error) { return own, nil }),
	} {
		t.Run(name, func(t *testing.T) {
			s, client := newServer(t, kinds(), apiserver.Storage(open))
			_, err := client.Resource(pizzas).Namespace("default").Create(t.Context(),
				newPizza(t, "margherita", `{"size":"enormous"}`), metav1.CreateOptions{})
			require.NoError(t, err)
			s.Stop()
			_, client = newServer(t, kinds(), apiserver.Storage(open))
			old, err := client.Resource(oldPizzas).Namespace("default").Get(t.Context(), "margherita",
				metav1.GetOptions{})
			require.NoError(t, err)
			check(t, "size", text(t, old, "spec", "size"), `"enormous"`)
		})
	}
	for folder, readable := range map[string]bool{"plain": true, "secret": false} {
		found := false
		files, err := filepath.Glob(filepath.Join(dir, folder, "*"))
		require.NoError(t, err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			found = found || strings.Contains(string(data), "enormous")
		}
		assert.Equalf(t, found, readable, "%s: readable on disk", folder)
	}
	if _, err := apiserver.New(t.Context(), kinds(), apiserver.Storage(apiserver.Encrypted(key, apiserver.Memory()))); err == nil {
		t.Error("encryption of a storage in memory was ignored without an error")
	}
}

// A fork begins with the state of another server and does not change it.
func TestFork(t *testing.T) {
	s, client := newServer(t, kinds())
	ctx := t.Context()
	_, err := client.Resource(toppings).Create(ctx, newTopping(t, "ham"), metav1.CreateOptions{})
	require.NoError(t, err)
	_, fork := newServer(t, kinds(), apiserver.Fork(s.Store().Snapshot()))
	require.NoError(t, fork.Resource(toppings).Delete(ctx, "ham", metav1.DeleteOptions{}))
	_, err = client.Resource(toppings).Get(ctx, "ham", metav1.GetOptions{})
	assert.NoErrorf(t, err, "the fork changed the other server")
}
