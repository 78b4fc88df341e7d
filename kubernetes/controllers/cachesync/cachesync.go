// Package cachesync waits for the caches of Kubernetes' controllers and scheduler, and reports
// those that do not fill. A controller without a full cache does nothing. Without a report, a cache
// of a kind that the server does not serve would stop it silently:
//
//	waits := cachesync.New(log)
//	waits.For(ctx, "scheduler", pods.HasSyncedChecker(), nodes.HasSyncedChecker())
//	err := waits.Check(ctx) // names the scheduler while it has waited for longer than Patience
package cachesync

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
)

// Patience is how long a component may wait for its caches before the wait is reported.
const Patience = 30 * time.Second

// Waits are the components that wait for their caches. The nil value waits and reports nothing. All
// methods are safe for concurrent use.
type Waits struct {
	log *slog.Logger

	mu   sync.Mutex
	late map[*wait]string // by wait, the component and its caches
}

type wait struct{ _ byte } // not empty, so that each has its own address

// New returns a report without components. log receives one error for each wait that takes longer
// than Patience; nil discards it.
func New(log *slog.Logger) *Waits {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Waits{log: log, late: map[*wait]string{}}
}

// For blocks until all caches of a component have synced, and then returns true. If ctx ends first,
// it returns false. A component that waits for longer than Patience is logged, and [Waits.Check]
// fails until the caches have synced or ctx ends.
func (w *Waits) For(ctx context.Context, component string, caches ...cache.DoneChecker) bool {
	if w == nil {
		return cache.WaitFor(ctx, "", caches...)
	}
	this := &wait{}
	report := time.AfterFunc(Patience, func() { w.report(ctx, this, component, caches) })
	defer func() {
		report.Stop()
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.late, this) // a report that begins now finds that the wait has ended
	}()
	w.mu.Lock()
	w.late[this] = ""
	w.mu.Unlock()
	return cache.WaitFor(ctx, "", caches...)
}

// report logs the caches that have not synced and makes Check fail, unless the wait has ended.
func (w *Waits) report(ctx context.Context, this *wait, component string, caches []cache.DoneChecker) {
	missing := strings.Join(unfilled(caches), ", ")
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, waits := w.late[this]; !waits || missing == "" || ctx.Err() != nil {
		return
	}
	w.late[this] = fmt.Sprintf("%s waits for %s", component, missing)
	w.log.Error("caches are not filled, so the component does nothing: serve these kinds, or run the server without the component; "+
		"debug records have the errors of its requests",
		"component", component, "caches", missing, "after", Patience)
}

// unfilled returns the names of the caches that have not synced, such as *v1.Pod. The handlers of a
// cache are named only if the cache itself is filled.
func unfilled(caches []cache.DoneChecker) []string {
	var missing []string
	for _, c := range caches {
		if !cache.IsDone(c) {
			missing = append(missing, strings.TrimPrefix(c.Name(), "SharedIndexInformer "))
		}
	}
	slices.Sort(missing)
	missing = slices.Compact(missing)
	return slices.DeleteFunc(missing, func(name string) bool {
		informer, _, handler := strings.Cut(name, " + ")
		return handler && slices.Contains(missing, informer)
	})
}

// Check returns an error that names the components that have waited for longer than Patience, and
// the caches that each of them waited for then. It is a health check.
func (w *Waits) Check(context.Context) error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	late := slices.DeleteFunc(slices.Sorted(maps.Values(w.late)), func(s string) bool { return s == "" })
	if len(late) > 0 {
		return fmt.Errorf("caches are not filled after %s: %s", Patience, strings.Join(late, "; "))
	}
	return nil
}
