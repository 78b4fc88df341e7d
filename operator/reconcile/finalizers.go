package reconcile

import (
	"slices"

	"kelson.dev/operator/client"
)

// HasFinalizer reports whether an object has a finalizer.
func HasFinalizer(obj client.Object, finalizer string) bool {
	return slices.Contains(obj.GetFinalizers(), finalizer)
}

// AddFinalizer adds a finalizer to obj in memory, and reports whether it was missing. Typed
// reconcilers implement Finalize instead.
func AddFinalizer(obj client.Object, finalizer string) bool {
	if HasFinalizer(obj, finalizer) {
		return false
	}
	obj.SetFinalizers(append(slices.Clone(obj.GetFinalizers()), finalizer))
	return true
}

// RemoveFinalizer removes a finalizer from obj in memory, and reports whether it was there.
func RemoveFinalizer(obj client.Object, finalizer string) bool {
	if !HasFinalizer(obj, finalizer) {
		return false
	}
	obj.SetFinalizers(slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool {
		return f == finalizer
	}))
	return true
}
