// Package manifests follows folders of manifests, whose webhooks or policies apply without being
// stored in the API.
package manifests

import (
	"context"
	"errors"
	"sync"
)

// ErrUnsupported is the error of servers that cannot read manifests.
var ErrUnsupported = errors.New("this server does not support staticManifestsDir")

// Source is a folder whose manifests have been read. RunReloadLoop reads them again after changes,
// until ctx ends.
type Source interface{ RunReloadLoop(ctx context.Context) }

// Follower follows a folder until Stop. The zero value follows none.
type Follower struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// Follow begins to follow a folder. It must be called at most once.
func (f *Follower) Follow(s Source) {
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	f.ended.Go(func() { s.RunReloadLoop(ctx) })
}

// Stop ends the goroutine that reads the folder, and waits for its end.
func (f *Follower) Stop() {
	if f.cancel != nil {
		f.cancel()
		f.ended.Wait()
	}
}
