package store

// Cursor reads the events of one resource (or of all) in revision order, each exactly once. It is for one goroutine.
// It holds nothing that needs closing.
//
//	for {
//		events, _, err := cursor.Next()
//		… deliver events …
//		select {
//		case <-cursor.Ready():
//		case <-ctx.Done():
//		}
//	}
type Cursor struct{}

// Next returns the events that came since the last call, possibly none, without blocking, and the revision up to which
// all events have now been returned (for bookmarks). ErrCompacted when the cursor fell off the end of the log: nothing
// was skipped silently. ErrClosed after Store.Close. The slice is valid until the next call.
func (c *Cursor) Next() (events []*Event, revision uint64, err error) { panic("TODO") }

// Ready returns a channel that is closed when Next has something to return.
// Take it after Next returned nothing.
func (c *Cursor) Ready() <-chan struct{} { panic("TODO") }
