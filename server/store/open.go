package store

// Config says how to open a Store.
type Config struct {
	// Backend makes writes durable; nil keeps everything in memory only.
	Backend Backend
	// Retain is how many events per resource the watch log keeps at least; 0 means 10,000.
	Retain int
	// Now is used for nothing but the ages in metrics.
}

// Store is the state of one control plane. All methods are safe for concurrent use.
type Store struct{}

// Open loads the backend's state and starts the committer. The caller closes the store.
func Open(cfg Config) (*Store, error) { panic("TODO") }

// Close ends the committer after what was queued, and closes the backend. Cursors get ErrClosed. Reads go on.
func (s *Store) Close() error { panic("TODO") }

func (s *Store) commit(ctx interface{ Done() <-chan struct{} }, ops []Op) ([]*Object, error) {
	panic("TODO")
}
func (s *Store) snapshot() *Snapshot                                  { panic("TODO") }
func (s *Store) at(revision uint64) (*Snapshot, error)                { panic("TODO") }
func (s *Store) pin(sn *Snapshot)                                     { panic("TODO") }
func (s *Store) watch(resource string, after uint64) (*Cursor, error) { panic("TODO") }
