package client

// GetOption changes a Get.
type GetOption interface{ applyGet() }

// ListOption changes a List, Watch or DeleteAllOf.
type ListOption interface{ applyList() }

// WriteOption changes a Create, Update, Patch or Apply.
type WriteOption interface{ applyWrite() }

// DeleteOption changes a Delete.
type DeleteOption interface{ applyDelete() }

// DeleteAllOfOption changes a DeleteAllOf.
type DeleteAllOfOption interface{ applyDeleteAllOf() }
