package follow

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/apiserver/store"
)

// IgnoreGone returns nil if err is NotFound and the store confirms that an object does not exist
// any longer, or exists with another uid. It returns err otherwise: the error of a write can name
// another object, for example a namespace that admission does not find, or come from a webhook. A
// controller that took it for the deletion of its own object would stop for ever.
//
// uid may be "". If this process is behind the store that it shares with others, IgnoreGone returns
// err for a deleted object too, and the controller tries again.
func IgnoreGone(st *store.Store, key store.Key, uid types.UID, err error) error {
	if apierrors.IsNotFound(err) && !Exists(st, key, uid) {
		return nil
	}
	return err
}

// IgnoreChanged is like [IgnoreGone], for writes with a precondition. It also returns nil if err is
// Conflict and the object no longer has the revision that the write depends on. The event of the
// other write queues the object again.
func IgnoreChanged(st *store.Store, read *store.Object, err error) error {
	if apierrors.IsConflict(err) {
		if now := st.Snapshot().Get(read.Key); now == nil || now.Revision != read.Revision {
			return nil
		}
	}
	return IgnoreGone(st, read.Key, read.Head.UID, err)
}

// IgnoreExists returns nil if err is AlreadyExists and an object with this key exists.
func IgnoreExists(st *store.Store, key store.Key, err error) error {
	if apierrors.IsAlreadyExists(err) && Exists(st, key, "") {
		return nil
	}
	return err
}

// Exists reports whether an object exists with a uid; any, if uid is "".
func Exists(st *store.Store, key store.Key, uid types.UID) bool {
	obj := st.Snapshot().Get(key)
	return obj != nil && (uid == "" || obj.Head.UID == uid)
}
