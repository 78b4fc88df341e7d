package controlplane_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
)

// broken is a backend whose disk fails on demand.
type broken struct{ fails, full bool }

func (b *broken) Load(func(store.Record) error) (uint64, error)                   { return 0, nil }
func (b *broken) Close() error                                                    { return nil }
func (b *broken) Checkpoint() func(context.Context, iter.Seq[store.Record]) error { return nil }

func (b *broken) Append([]store.Record) error {
	if b.fails {
		return errors.New("input/output error")
	}
	return b.Recover()
}

func (b *broken) Recover() error {
	if b.full {
		return store.ErrFull
	}
	return nil
}

func get(t *testing.T, plane *controlplane.ControlPlane, path string) (int, string) {
	t.Helper()
	resp, err := (&http.Client{Transport: plane.Transport()}).Get("http://plane" + path)
	require.NoError(t, err)
	body := require.Body(t, resp)
	return resp.StatusCode, string(body)
}

// After a failed write to the disk, writes get 503 and the health checks fail, while existing
// objects can be read.
func TestFailedDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &broken{}
		state := storetest.New(t, store.Config{Backend: disk})
		plane := start(t, controlplane.Config{Store: state})
		synctest.Wait()
		if code, body := get(t, plane, "/readyz?verbose"); code != http.StatusOK ||
			!strings.Contains(body, "[+]store ok") {
			t.Fatalf("readyz: %d %s", code, body)
		}
		disk.fails = true
		resp, err := (&http.Client{Transport: plane.Transport()}).
			Post("http://plane/api/v1/namespaces/default/configmaps", "application/json",
				strings.NewReader(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}`))
		require.NoError(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("a write that was not stored: %d", resp.StatusCode)
		}
		for _, path := range []string{"/healthz", "/livez", "/readyz", "/readyz/store"} {
			if code, _ := get(t, plane, path); code != http.StatusInternalServerError {
				t.Errorf("%s: %d", path, code)
			}
		}
		if code, _ := get(t, plane, "/api/v1/namespaces/default/configmaps/x"); code != http.StatusNotFound {
			t.Errorf("an object that was not stored is visible: %d", code)
		}
		if code, _ := get(t, plane, "/api/v1/namespaces/default"); code != http.StatusOK {
			t.Errorf("read of an existing object: %d", code)
		}
	})
}

// A server whose disk is full is not ready, but a restart would not help. It becomes ready by
// itself when there is space.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &broken{}
		state := storetest.New(t, store.Config{Backend: disk})
		plane := start(t, controlplane.Config{Store: state})
		synctest.Wait()
		for _, full := range []bool{true, false} {
			disk.full = full
			resp, err := (&http.Client{Transport: plane.Transport()}).
				Post("http://plane/api/v1/namespaces/default/configmaps?fieldManager=t", "application/json",
					strings.NewReader(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"x"}}`))
			require.NoError(t, err)
			resp.Body.Close()
			time.Sleep(time.Minute)
			ready := http.StatusOK
			if full {
				ready = http.StatusInternalServerError
			}
			for path, want := range map[string]int{"/livez": http.StatusOK, "/livez/store": http.StatusOK,
				"/readyz": ready, "/api/v1/namespaces/default": http.StatusOK} {
				if code, body := get(t, plane, path); code != want {
					t.Errorf("full: %v: %s: %d, want %d: %s", full, path, code, want, body)
				}
			}
		}
	})
}

// A new control plane has the four namespaces of Kubernetes and the Service "kubernetes" at the
// first address of the range.
func TestInitialObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := start(t, controlplane.Config{ServiceRange: "10.96.0.0/16"})
		for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
			if code, body := get(t, plane, "/api/v1/namespaces/"+name); code != http.StatusOK ||
				!strings.Contains(body, `"phase":"Active"`) {
				t.Errorf("namespace %s: %d %s", name, code, body)
			}
		}
		if code, body := get(t, plane, "/api/v1/namespaces/default/services/kubernetes"); code != http.StatusOK ||
			!strings.Contains(body, `"clusterIP":"10.96.0.1"`) {
			t.Errorf("service kubernetes: %d %s", code, body)
		}
	})
}
