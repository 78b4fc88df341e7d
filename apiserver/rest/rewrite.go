package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"kelson.dev/apiserver/resource"
	"kelson.dev/apiserver/store"
)

// Rewrite stores objects of a kind again if they are stored in an older form, such as another
// version. If all is true, it stores all objects again. It returns how many it stored. Watches
// receive the event Modified for each stored object.
//
// Rewrite skips objects that are written concurrently, because such a write already stores the new
// form. If it cannot read or convert an object, it continues with the others; err is the first such
// error. A panic of a conversion is such an error, too.
func Rewrite(ctx context.Context, st *store.Store, res *resource.Resource, all bool) (stored int, err error) {
	if _, can := res.Codec.(resource.Verbatim); !can && !all {
		return 0, nil
	}
	for obj := range st.Snapshot().Scan(res.Prefix(), "", store.Key{}) {
		if ctx.Err() != nil {
			return stored, ctx.Err()
		}
		data, failed := encodeUnlessSame(res, obj, all)
		if failed != nil {
			if err == nil {
				err = fmt.Errorf("%s/%s: %w", obj.Key.Namespace, obj.Key.Name, failed)
			}
			continue
		}
		if data == nil {
			continue
		}
		done, failed := storeAgain(ctx, st, res, obj, data)
		if failed != nil {
			return stored, fmt.Errorf("%s/%s: %w", obj.Key.Namespace, obj.Key.Name, failed)
		}
		if done {
			stored++
		}
	}
	return stored, err
}

// encodeUnlessSame returns the present form of an object. Unless all is true, it returns nil if the
// object is stored in that form. A panic, for example in the defaults of the kind, is an error.
func encodeUnlessSame(res *resource.Resource, obj *store.Object, all bool) (data []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			slog.Error("panic while an object was encoded again", "resource", res.GroupResource(),
				"namespace", obj.Key.Namespace, "name", obj.Key.Name,
				"panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if !all && res.Codec.(resource.Verbatim).Verbatim(obj) {
		return nil, nil
	}
	return encodeAgain(res, obj)
}

func encodeAgain(res *resource.Resource, obj *store.Object) ([]byte, error) {
	hub, err := res.Codec.Load(obj.Data)
	if err != nil {
		return nil, err
	}
	return res.Codec.Store(hub)
}

// storeAgain stores an object, and reports false if a concurrent write has changed it.
func storeAgain(ctx context.Context, st *store.Store, res *resource.Resource, obj *store.Object,
	data []byte) (bool, error) {
	ops := []store.Op{{Key: obj.Key, Data: data, Expect: obj.Revision}}
	if res.Guard != nil {
		ops = append(ops, res.Guard.Check)
	}
	_, err := st.Commit(ctx, ops...)
	var conflict *store.ConflictError
	if errors.As(err, &conflict) && conflict.Key == obj.Key {
		return false, nil
	}
	return err == nil, err
}
