package kubernetes_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"

	"kelson.dev/apiserver/store"
)

// adapter is a storage.Interface over a store. The key "/pods/ns/name" is the object "/ns/name" of
// the resource "pods", so that keys are ordered as bytes, like in etcd.
type adapter struct {
	storage.APIObjectVersioner
	store *store.Store
	codec runtime.Codec

	mu          sync.Mutex
	transformer value.Transformer
	sizes       bool
}

var _ storage.Interface = (*adapter)(nil)

func (a *adapter) Versioner() storage.Versioner { return a.APIObjectVersioner }

func (a *adapter) transform() value.Transformer {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.transformer
}

func (a *adapter) replaceTransformer(t value.Transformer) (restore func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.transformer
	a.transformer = t
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.transformer = before
	}
}

// UpdatePrefixTransformer implements storagetesting.InterfaceWithPrefixTransformer.
func (a *adapter) UpdatePrefixTransformer(modify storagetesting.PrefixTransformerModifier) func() {
	copied := *a.transform().(*storagetesting.PrefixTransformer)
	return a.replaceTransformer(modify(&copied))
}

// UpdateTransformer implements storagetesting.InterfaceWithTransformerOverride.
func (a *adapter) UpdateTransformer(modify storagetesting.TransformerModifier) func() {
	return a.replaceTransformer(modify(a.transform()))
}

const storedResource = "pods"

// place returns the store key of an object.
func place(key string, recursive bool) (store.Key, error) {
	prepared, err := storage.PrepareKey("/"+storedResource+"/", key, recursive)
	if err != nil {
		return store.Key{}, err
	}
	return store.Key{Resource: storedResource, Name: strings.TrimPrefix(prepared, "/"+storedResource)}, nil
}

func keyOf(obj *store.Object) string { return "/" + storedResource + obj.Key.Name }

// envelope is the stored form.
type envelope struct {
	Metadata struct{} `json:"metadata"`
	Value    string   `json:"value"`
}

func (a *adapter) seal(ctx context.Context, key string, data []byte) ([]byte, error) {
	data, err := a.transform().TransformToStorage(ctx, data, value.DefaultContext(key))
	if err != nil {
		return nil, storage.NewInternalError(err)
	}
	return json.Marshal(envelope{Value: base64.StdEncoding.EncodeToString(data)})
}

// unseal returns the encoded object, and whether it should be rewritten.
func (a *adapter) unseal(ctx context.Context, obj *store.Object) (data []byte, stale bool, err error) {
	var e envelope
	if err := json.Unmarshal(obj.Data, &e); err != nil {
		return nil, false, err
	}
	if data, err = base64.StdEncoding.DecodeString(e.Value); err != nil {
		return nil, false, err
	}
	data, stale, err = a.transform().TransformFromStorage(ctx, data, value.DefaultContext(keyOf(obj)))
	if err != nil {
		return nil, false, storage.NewInternalError(fmt.Errorf("unable to transform key %q: %w", keyOf(obj), err))
	}
	return data, stale, nil
}

func (a *adapter) decode(data []byte, into runtime.Object, revision uint64) error {
	if _, err := conversion.EnforcePtr(into); err != nil {
		return fmt.Errorf("unable to convert output object to pointer: %w", err)
	}
	if _, _, err := a.codec.Decode(data, nil, into); err != nil {
		return err
	}
	return a.UpdateObject(into, revision)
}

// read decodes a stored object.
func (a *adapter) read(ctx context.Context, obj *store.Object, into runtime.Object) error {
	data, _, err := a.unseal(ctx, obj)
	if err != nil {
		return err
	}
	return a.decode(data, into, obj.Revision)
}

func (a *adapter) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	at, err := place(key, false)
	if err != nil {
		return err
	}
	if version, err := a.ObjectResourceVersion(obj); err == nil && version != 0 {
		return storage.ErrResourceVersionSetOnCreate
	}
	if err := a.PrepareObjectForStorage(obj); err != nil {
		return err
	}
	data, err := runtime.Encode(a.codec, obj)
	if err != nil {
		return err
	}
	sealed, err := a.seal(ctx, key, data)
	if err != nil {
		return err
	}
	written, err := a.store.Commit(ctx, store.Op{Key: at, Data: sealed})
	if errors.Is(err, store.ErrExists) {
		return storage.NewKeyExistsError(key, 0)
	}
	if err != nil {
		return err
	}
	a.expire(at, written[0].Revision, ttl)
	if out == nil {
		return nil
	}
	return a.decode(data, out, written[0].Revision)
}

// expire deletes an object after a number of seconds if it is unchanged.
func (a *adapter) expire(key store.Key, revision, ttl uint64) {
	if ttl > 0 {
		time.AfterFunc(time.Duration(ttl)*time.Second, func() {
			a.store.Commit(context.Background(), store.Op{Key: key, Expect: revision})
		})
	}
}

func (a *adapter) notOlder(asked string, have uint64) error {
	if asked == "" {
		return nil
	}
	want, err := a.ParseResourceVersion(asked)
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	if want > have {
		return storage.NewTooLargeResourceVersionError(want, have, 0)
	}
	return nil
}

func (a *adapter) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	at, err := place(key, false)
	if err != nil {
		return err
	}
	sn := a.store.Snapshot()
	if err := a.notOlder(opts.ResourceVersion, sn.Revision()); err != nil {
		return err
	}
	switch obj := sn.Get(at); {
	case obj != nil:
		return a.read(ctx, obj, out)
	case opts.IgnoreNotFound:
		return runtime.SetZeroValue(out)
	}
	return storage.NewKeyNotFoundError(key, 0)
}

// state is an object from the view of a writer.
type state struct {
	revision uint64
	obj      runtime.Object
	data     []byte
	stale    bool // the encoding is out of date
	known    bool // the state is known to be the newest
}

// current reads the newest state. If the object does not exist, the state is a zero object at
// revision 0.
func (a *adapter) current(ctx context.Context, key string, at store.Key, like runtime.Object,
	missing bool) (state, error) {
	s := state{obj: reflect.New(reflect.TypeOf(like).Elem()).Interface().(runtime.Object), known: true}
	obj := a.store.Snapshot().Get(at)
	if obj == nil {
		if !missing {
			return s, storage.NewKeyNotFoundError(key, 0)
		}
		return s, runtime.SetZeroValue(s.obj)
	}
	var err error
	if s.data, s.stale, err = a.unseal(ctx, obj); err != nil {
		return s, err
	}
	s.revision = obj.Revision
	return s, a.decode(s.data, s.obj, obj.Revision)
}

// suggested returns a state for the caller's object, if there is one.
func (a *adapter) suggested(ctx context.Context, key string, at store.Key, like, cached runtime.Object,
	missing bool) (state, error) {
	if cached == nil {
		return a.current(ctx, key, at, like, missing)
	}
	revision, err := a.ObjectResourceVersion(cached)
	if err != nil {
		return state{}, err
	}
	s := state{revision: revision, obj: cached.DeepCopyObject()}
	if err := a.PrepareObjectForStorage(s.obj); err != nil {
		return state{}, err
	}
	if s.data, err = runtime.Encode(a.codec, s.obj); err != nil {
		return state{}, err
	}
	return s, a.UpdateObject(s.obj, revision)
}

// attempt tries a write on a state until the state is the newest. It ignores errors for an outdated
// state.
func attempt(s state, newest func() (state, error), write func(*state) error) error {
	for {
		err := write(&s)
		var conflict *store.ConflictError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &conflict):
		case s.known:
			return err
		}
		tried := s.revision
		var failure error
		if s, failure = newest(); failure != nil {
			return failure
		}
		if conflict == nil && s.revision == tried {
			return err
		}
	}
}

func (a *adapter) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, _ storage.DeleteOptions) error {
	at, err := place(key, false)
	if err != nil {
		return err
	}
	newest := func() (state, error) { return a.current(ctx, key, at, out, false) }
	s, err := a.suggested(ctx, key, at, out, cached, false)
	if err != nil {
		return err
	}
	return attempt(s, newest, func(s *state) error {
		if err := preconditions.Check(key, s.obj); err != nil {
			return err
		}
		if err := validate(ctx, s.obj); err != nil {
			return err
		}
		deleted, err := a.store.Commit(ctx, store.Op{Key: at, Expect: s.revision})
		if err != nil {
			return err
		}
		return a.decode(s.data, out, deleted[0].Revision)
	})
}

func (a *adapter) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, missing bool,
	preconditions *storage.Preconditions, update storage.UpdateFunc, cached runtime.Object) error {
	at, err := place(key, false)
	if err != nil {
		return err
	}
	newest := func() (state, error) { return a.current(ctx, key, at, out, missing) }
	s, err := a.suggested(ctx, key, at, out, cached, missing)
	if err != nil {
		return err
	}
	return attempt(s, newest, func(s *state) error {
		if err := preconditions.Check(key, s.obj); err != nil {
			return err
		}
		next, ttl, err := update(s.obj, storage.ResponseMeta{ResourceVersion: s.revision})
		if err != nil {
			return err
		}
		if err := a.PrepareObjectForStorage(next); err != nil {
			return err
		}
		data, err := runtime.Encode(a.codec, next)
		if err != nil {
			return err
		}
		// only the newest state can prove that nothing changes
		if bytes.Equal(data, s.data) && !s.known {
			now, err := newest()
			if err != nil {
				return err
			}
			if *s = now; !bytes.Equal(data, now.data) {
				return &store.ConflictError{Reason: store.ErrConflict}
			}
		}
		if bytes.Equal(data, s.data) && !s.stale {
			return a.decode(data, out, s.revision)
		}
		sealed, err := a.seal(ctx, key, data)
		if err != nil {
			return err
		}
		written, err := a.store.Commit(ctx, store.Op{Key: at, Data: sealed, Expect: s.revision})
		if err != nil {
			return err
		}
		if ttl != nil {
			a.expire(at, written[0].Revision, *ttl)
		}
		return a.decode(data, out, written[0].Revision)
	})
}

func (a *adapter) GetList(ctx context.Context, key string, opts storage.ListOptions, list runtime.Object) error {
	at, err := place(key, opts.Recursive)
	if err != nil {
		return err
	}
	prefix := "/" + storedResource + at.Name
	revision, from, err := storage.ValidateListOptions(prefix, a.APIObjectVersioner, opts)
	if err != nil {
		return err
	}
	sn, err := a.snapshot(opts, uint64(revision), from, prefix)
	if err != nil {
		return err
	}
	ptr, err := meta.GetItemsPtr(list)
	if err != nil {
		return err
	}
	items := reflect.ValueOf(ptr).Elem()
	items.Set(reflect.MakeSlice(items.Type(), 0, 0))
	found := objects(sn, at.Name, opts.Recursive, from)
	last, more := "", false
	for _, obj := range found {
		if more = opts.Predicate.Limit > 0 && int64(items.Len()) >= opts.Predicate.Limit; more {
			break
		}
		last = keyOf(obj)
		item := reflect.New(items.Type().Elem())
		if err := a.read(ctx, obj, item.Interface().(runtime.Object)); err != nil {
			return err
		}
		if ok, err := opts.Predicate.Matches(item.Interface().(runtime.Object)); err == nil && ok {
			items.Set(reflect.Append(items, item.Elem()))
		}
	}
	token, remaining, err := storage.PrepareContinueToken(last, prefix, int64(sn.Revision()), int64(len(found)), more,
		opts)
	if err != nil {
		return err
	}
	return a.UpdateList(list, sn.Revision(), token, remaining)
}

// snapshot returns the state of a list; revision 0 means the newest.
func (a *adapter) snapshot(opts storage.ListOptions, revision uint64, from, prefix string) (*store.Snapshot, error) {
	if revision == 0 {
		sn := a.store.Snapshot()
		return sn, a.notOlder(opts.ResourceVersion, sn.Revision())
	}
	sn, err := a.store.At(revision)
	switch {
	case errors.Is(err, store.ErrCompacted) && opts.Predicate.Continue != "":
		// As in etcd, the list may continue in a newer state.
		token, failure := storage.EncodeContinue(from, prefix, -1)
		if failure != nil {
			return nil, failure
		}
		expired := apierrors.NewResourceExpired(
			"The provided continue parameter is too old to display a consistent list result. " +
				"You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results.")
		expired.ErrStatus.ListMeta.Continue = token
		return nil, expired
	case errors.Is(err, store.ErrCompacted):
		return nil, apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	case errors.Is(err, store.ErrFuture):
		return nil, storage.NewTooLargeResourceVersionError(revision, a.store.Snapshot().Revision(), 0)
	}
	return sn, err
}

// objects returns the objects below a prefix, or the one with that name.
func objects(sn *store.Snapshot, name string, recursive bool, from string) (found []*store.Object) {
	if !recursive {
		if obj := sn.Get(store.Key{Resource: storedResource, Name: name}); obj != nil {
			found = append(found, obj)
		}
		return found
	}
	for obj := range sn.Scan(storedResource, "", store.Key{}) {
		if strings.HasPrefix(obj.Key.Name, name) && keyOf(obj) >= from {
			found = append(found, obj)
		}
	}
	return found
}

func (a *adapter) Stats(context.Context) (storage.Stats, error) {
	sn := a.store.Snapshot()
	stats := storage.Stats{ObjectCount: int64(sn.Count(storedResource, ""))}
	if a.sizes && stats.ObjectCount > 0 {
		total := 0
		for obj := range sn.Scan(storedResource, "", store.Key{}) {
			var e envelope
			if err := json.Unmarshal(obj.Data, &e); err != nil {
				return stats, err
			}
			total += base64.StdEncoding.DecodedLen(len(e.Value)) - strings.Count(e.Value, "=")
		}
		stats.EstimatedAverageObjectSizeBytes = int64(total) / stats.ObjectCount
	}
	return stats, nil
}

func (a *adapter) ReadinessCheck() error                      { return a.store.Failed() }
func (a *adapter) RequestWatchProgress(context.Context) error { return nil }
func (a *adapter) GetCurrentResourceVersion(context.Context) (uint64, error) {
	return a.store.Snapshot().Revision(), nil
}
func (a *adapter) EnableResourceSizeEstimation(storage.KeysFunc) error { a.sizes = true; return nil }
func (a *adapter) CompactRevision() int64                              { return int64(a.store.Compacted()) }
