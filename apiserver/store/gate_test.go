package store_test

import (
	"context"
	"errors"
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
)

// A gate decides when, and whether, a write reaches the log.
func TestGate(t *testing.T) {
	s := storetest.New(t, store.Config{})
	refused, arrived, pass := errors.New("not this one"), make(chan string), make(chan error)
	s.Gate(func(_ context.Context, ops []store.Op) error {
		arrived <- ops[0].Key.Name
		return <-pass
	})
	commit := func(name string) <-chan error {
		done := make(chan error, 1)
		go func() {
			_, err := s.Commit(t.Context(), store.Op{Key: store.Key{Resource: "pods", Namespace: "default", Name: name},
				Data: []byte(`{"metadata":{"name":"` + name + `"}}`)})
			done <- err
		}()
		return done
	}
	before := s.Snapshot().Revision()
	for name, want := range map[string]error{"a": nil, "b": refused} {
		done := commit(name)
		if got := <-arrived; got != name {
			t.Fatalf("%s arrived, want %s", got, name)
		}
		pass <- want
		if err := <-done; !errors.Is(err, want) {
			t.Errorf("commit %s: %v, want %v", name, err, want)
		}
	}
	if got := s.Snapshot().Revision() - before; got != 1 {
		t.Errorf("%d writes, want 1", got)
	}
	s.Gate(nil)
	if err := <-commit("c"); err != nil {
		t.Errorf("without a gate: %v", err)
	}
}
