package rest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/storetest"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// plainCodec stores unstructured objects unchanged.
type plainCodec struct{ resource.Codec }

func (plainCodec) Store(hub runtime.Object) ([]byte, error) {
	return hub.(*unstructured.Unstructured).MarshalJSON()
}

// transaction is a write with a hook and a plugin that record their calls.
type transaction struct {
	write
	store  *store.Store
	events []string
}

func newTransaction(t *testing.T, early, dryRun bool, current *store.Object, h *Handler) *transaction {
	tx := &transaction{store: h.store}
	note := func(what string) { tx.events = append(tx.events, what) }
	hook := func(context.Context, runtime.Object, bool) ([]store.Op, func(), error) {
		note("allocate")
		return nil, func() { note("undo") }, nil
	}
	res := &resource.Resource{Plural: "things", Kind: "Thing", Codec: plainCodec{}, Hooks: &resource.Hooks{
		Early:    early,
		OnCreate: hook,
		OnUpdate: func(ctx context.Context, hub, _ runtime.Object, dry bool) ([]store.Op, func(), error) {
			return hook(ctx, hub, dry)
		},
		AfterCommit: func(context.Context, runtime.Object, runtime.Object, *store.Object) { note("after") },
	}}
	hub := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Thing",
		"metadata": map[string]any{"name": "a"}, "n": int64(1)}}
	var old runtime.Object
	if current != nil {
		old = hub.DeepCopyObject()
		hub.Object["n"] = int64(2)
	}
	tx.write = h.begin(t.Context(), res, res.Key("", "a"), hub, old, current, dryRun)
	tx.unit.Join(func(context.Context) ([]store.Op, func(), error) {
		note("join")
		return nil, func() { note("release") }, nil
	})
	return tx
}

func (tx *transaction) want(t *testing.T, what string, events ...string) {
	t.Helper()
	assert.Slicef(t, tx.events, events, "%s", what)
	tx.events = nil
}

// Allocations of a write are undone unless it commits, and reservations of plugins always end.
func TestWrite(t *testing.T) {
	st := storetest.New(t, store.Config{})
	h := New(Config{Store: st, Registry: resource.NewRegistry()})
	ctx := t.Context()

	tx := newTransaction(t, true, false, nil, h)
	require.NoError(t, tx.allocateEarly(ctx))
	tx.rollback() // as if validation had refused the object
	tx.rollback()
	tx.want(t, "refused", "allocate", "undo")

	tx = newTransaction(t, true, true, nil, h)
	if _, err := tx.commit(ctx); err != nil || st.Snapshot().Get(tx.key) != nil {
		t.Fatalf("dry run: error %v, and stored %v", err, st.Snapshot().Get(tx.key))
	}
	tx.want(t, "dry run", "allocate", "undo")

	tx = newTransaction(t, false, false, nil, h)
	done, err := tx.commit(ctx)
	if err != nil || !done.created || !done.stored {
		t.Fatalf("%+v, %v", done, err)
	}
	tx.rollback()
	tx.want(t, "created", "join", "allocate", "after", "release")
	if tx.hub.(metav1.Object).GetResourceVersion() != fmt.Sprint(done.obj.Revision) {
		t.Error("the hub does not have the resourceVersion of the commit")
	}

	again := newTransaction(t, true, false, nil, h)
	var conflict *store.ConflictError
	for range 2 { // each attempt allocates again what the rollback before it has undone
		if _, err := again.commit(ctx); !errors.As(err, &conflict) {
			t.Fatalf("%v, want a conflict", err)
		}
		again.want(t, "conflict", "allocate", "join", "release", "undo")
	}

	tx = newTransaction(t, false, false, done.obj, h)
	changed, err := tx.commit(ctx)
	if err != nil || changed.created || !changed.stored {
		t.Fatalf("%+v, %v", changed, err)
	}
	tx.want(t, "updated", "join", "allocate", "after", "release")

	tx = newTransaction(t, false, false, changed.obj, h)
	same, err := tx.commit(ctx)
	if err != nil || same.stored || same.obj != changed.obj {
		t.Fatalf("%+v, %v", same, err)
	}
	tx.want(t, "unchanged", "join", "allocate", "release", "undo")
}

// If the definition of a kind changes during a write, the stored object has the form of the new
// definition, and the response that of the old one.
func TestGuard(t *testing.T) {
	st := storetest.New(t, store.Config{})
	h := New(Config{Store: st, Registry: resource.NewRegistry()})
	definition := store.Key{Resource: "definitions", Name: "things"}
	define := func() uint64 {
		objs, err := st.Commit(t.Context(), store.Op{Key: definition, Data: []byte(`{"metadata":{}}`),
			Expect: store.AnyRevision})
		require.NoError(t, err)
		return objs[0].Revision
	}
	old := define()
	tx := newTransaction(t, false, false, nil, h)
	renewed := 0
	var guard func(revision uint64) *resource.Guard
	guard = func(revision uint64) *resource.Guard {
		return &resource.Guard{
			Check: store.Op{Key: definition, Expect: revision, Check: true},
			Renew: func(current *store.Object) (*resource.Resource, error) {
				if renewed++; renewed == 1 {
					define() // it changes twice
				}
				res := *tx.res
				res.Codec, res.Guard = twiceCodec{}, guard(current.Revision)
				return &res, nil
			},
		}
	}
	tx.res.Guard = guard(old)
	define()
	done, err := tx.commit(t.Context())
	if err != nil || renewed != 2 {
		t.Fatalf("%v after %d changes, want success after 2", err, renewed)
	}
	tx.want(t, "created", "join", "allocate", "after", "release")
	stored := st.Snapshot().Get(tx.key)
	if !strings.Contains(string(stored.Data), `"n":2`) || !strings.Contains(string(done.obj.Data), `"n":1`) ||
		done.obj.Revision != stored.Revision {
		t.Errorf("stored %s, response %s", stored.Data, done.obj.Data)
	}

	tx = newTransaction(t, false, false, stored, h)
	tx.hub.(*unstructured.Unstructured).Object["n"] = int64(3)
	tx.res.Guard = guard(old)
	tx.res.Guard.Renew = func(*store.Object) (*resource.Resource, error) { return nil, nil }
	if _, err := tx.commit(t.Context()); !apierrors.IsNotFound(err) {
		t.Errorf("commit of a kind that no longer exists: %v, want not found", err)
	}
	tx.want(t, "not found", "join", "allocate", "release", "undo")
}

// twiceCodec stores twice the number n.
type twiceCodec struct{ plainCodec }

func (c twiceCodec) Store(hub runtime.Object) ([]byte, error) {
	u := hub.DeepCopyObject().(*unstructured.Unstructured)
	u.Object["n"] = 2 * u.Object["n"].(int64)
	return c.plainCodec.Store(u)
}

// An attempt that conflicts is repeated with the newest state, whichever object conflicted.
func TestRetried(t *testing.T) {
	st := storetest.New(t, store.Config{})
	h := New(Config{Store: st, Registry: resource.NewRegistry()})
	key, other := store.Key{Resource: "things", Name: "a"}, store.Key{Resource: "things", Name: "b"}
	objs, err := st.Commit(t.Context(), store.Op{Key: key, Data: []byte(`{"metadata":{}}`)})
	require.NoError(t, err)
	var seen []*store.Object
	_, err = retried(t.Context(), h, key, func(current *store.Object) (int, error) {
		switch seen = append(seen, current); len(seen) {
		case 1:
			return 0, &store.ConflictError{Key: other}
		case 2:
			return 0, &store.ConflictError{Key: key}
		}
		return 0, errors.New("refused")
	})
	if err == nil || err.Error() != "refused" || !slices.Equal(seen, []*store.Object{objs[0], objs[0], nil}) {
		t.Errorf("%v, %v", seen, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = retried(ctx, h, key, func(*store.Object) (int, error) {
		cancel()
		return 0, &store.ConflictError{Key: key}
	})
	var conflict *store.ConflictError
	if !errors.As(err, &conflict) {
		t.Errorf("%v, want the conflict", err)
	}
}
