package cache

type Informer interface{ HasSynced() bool }

type Cache interface {
	GetInformer(name string) (Informer, error)
}

type Options struct {
	NewInformer func()
	SyncPeriod  *int
}
