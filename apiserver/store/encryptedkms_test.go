package store_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/kms/pkg/service"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/require"
)

// kmsPlugin is a KMS plugin whose behavior tests control.
type kmsPlugin struct{ mode atomic.Value }

const (
	works    = "works"
	hangs    = "hangs"
	corrupts = "corrupts"
	fails    = "fails"
)

func (k *kmsPlugin) behave(ctx context.Context) error {
	switch k.mode.Load() {
	case hangs:
		<-ctx.Done() // longer than any caller waits
		return ctx.Err()
	case fails:
		return errors.New("unavailable")
	}
	return nil
}

func (k *kmsPlugin) cipher(data []byte) []byte {
	out := bytes.Clone(data)
	for i := range out {
		out[i] ^= 0x5a
	}
	if k.mode.Load() == corrupts && len(out) > 0 {
		out[0] ^= 1
	}
	return out
}

func (k *kmsPlugin) Encrypt(ctx context.Context, _ string, data []byte) (*service.EncryptResponse, error) {
	if err := k.behave(ctx); err != nil {
		return nil, err
	}
	return &service.EncryptResponse{Ciphertext: k.cipher(data), KeyID: "1"}, nil
}

func (k *kmsPlugin) Decrypt(ctx context.Context, _ string, req *service.DecryptRequest) ([]byte, error) {
	if err := k.behave(ctx); err != nil {
		return nil, err
	}
	return k.cipher(req.Ciphertext), nil
}

func (k *kmsPlugin) Status(ctx context.Context) (*service.StatusResponse, error) {
	if err := k.behave(ctx); err != nil {
		return nil, err
	}
	return &service.StatusResponse{Version: "v2", Healthz: "ok", KeyID: "1"}, nil
}

// newPlugin serves a plugin on a socket. file is an EncryptionConfiguration that encrypts Secrets
// with it.
func newPlugin(t *testing.T) (k *kmsPlugin, file string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "kms") // paths of sockets must be short
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	k = &kmsPlugin{}
	k.mode.Store(works)
	socket := filepath.Join(dir, "s")
	server := service.NewGRPCService(socket, time.Hour, k)
	go server.ListenAndServe()
	t.Cleanup(server.Shutdown)
	file = filepath.Join(dir, "encryption.yaml")
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n" +
		"  - kms: {apiVersion: v2, name: " + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")) +
		", endpoint: 'unix://" + socket + "', timeout: 500ms}\n  - identity: {}\n"
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return k, file
}

func tryPut(t *testing.T, s *store.Store, resource, name string) error {
	key := store.Key{Resource: resource, Namespace: "lab", Name: name}
	_, err := s.Commit(t.Context(), store.Op{Key: key,
		Data: []byte(`{"metadata":{"name":"` + name + `"},"value":"` + plain + `"}`), Expect: store.AnyRevision})
	return err
}

// within fails the test if do takes longer than limit.
func within(t *testing.T, limit time.Duration, what string, do func()) {
	t.Helper()
	start := time.Now()
	do()
	if took := time.Since(start); took > limit {
		t.Errorf("%s took %s", what, took)
	}
}

// A plugin that does not respond delays neither the start nor writes that need no encryption. The
// store refuses writes of Secrets until it has a key, and does not fail permanently.
func TestPluginHangsAtStart(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{hangs, fails} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			k, file := newPlugin(t)
			k.mode.Store(mode)
			dir := t.TempDir()
			var s *store.Store
			within(t, time.Minute, "the start", func() {
				var err error
				if s, err = openEncrypted(dir, file); err != nil {
					t.Fatal(err)
				}
			})
			defer s.Close()
			within(t, 30*time.Second, "a refusal", func() {
				if err := tryPut(t, s, "secrets", "refused"); !errors.Is(err, store.ErrNotWritten) {
					t.Errorf("without a key: %v", err)
				}
			})
			if err := tryPut(t, s, "configmaps", "taken"); err != nil || s.Failed() != nil {
				t.Errorf("a value that is not encrypted: %v, %v", err, s.Failed())
			}
			if s.Snapshot().Count("secrets", "") > 0 {
				t.Error("a refused Secret is stored")
			}
			k.mode.Store(works)
			if err := putWithKey(t, s, "secrets", "taken"); err != nil {
				t.Errorf("with a key: %v", err)
			}
		})
	}
}

// putWithKey writes an object as soon as the plugin has given the store a key. Right after a start,
// on a busy machine, it may not have one yet.
func putWithKey(t *testing.T, s *store.Store, resource, name string) (err error) {
	t.Helper()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		if err = tryPut(t, s, resource, name); err == nil {
			break
		}
	}
	return err
}

// A store that has a key continues if the plugin stops answering or returns wrong answers. The next
// start, however, fails soon; its error names the value that it cannot read, and the disk is
// unchanged.
func TestPluginFailsAfterStart(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{hangs, corrupts, fails} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			k, file := newPlugin(t)
			dir := t.TempDir()
			s, err := openEncrypted(dir, file)
			require.NoError(t, err)
			require.NoError(t, putWithKey(t, s, "secrets", "hidden"))
			k.mode.Store(mode)
			within(t, 10*time.Second, "a write", func() {
				if err := tryPut(t, s, "secrets", "hidden"); err != nil {
					t.Errorf("with a key: %v", err)
				}
			})
			within(t, 10*time.Second, "the end", func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			if strings.Contains(onDisk(t, dir), plain) {
				t.Error("the disk has unencrypted values")
			}
			before := onDisk(t, dir)
			within(t, time.Minute, "a start", func() {
				if s, err := openEncrypted(dir, file); err == nil {
					s.Close()
					t.Error("the store started without its key")
				} else if !strings.Contains(err.Error(), "secrets lab/hidden") {
					t.Errorf("error of the start: %v", err)
				}
			})
			if onDisk(t, dir) != before {
				t.Error("the start changed the directory")
			}
			k.mode.Store(works)
			if s, err = openEncrypted(dir, file); err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if !holds(t, s, "secrets", "hidden") {
				t.Error("the Secret is gone")
			}
		})
	}
}
