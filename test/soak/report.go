package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

const mib = 1 << 20

// report has what was measured.
type report struct {
	profiles string // folder; "": none are written
	most     memory // the highest of each
	idling   memory // after the load
	watches  error  // of disturbed watches
}

// Metrics of the budget, by part.
const (
	used    = `kelson_memory_budget_bytes{part="%s"}`
	evicted = `kelson_memory_budget_evictions_total{part="%s"}`
	limit   = "kelson_memory_budget_limit_bytes"
)

// parts are the parts of the budget that the table shows.
var parts = []string{"watch_logs", "memos", "pages"}

// sample measures the server every second until ctx ends. It prints a row at each interval.
func (r *report) sample(ctx context.Context, srv *server, l *load, w *watches, interval time.Duration) error {
	fmt.Printf("\nMiB     time  requests   events  objects | live heap  private resident |    limit")
	for _, p := range parts {
		fmt.Printf(" %10s", p)
	}
	fmt.Println("  evictions")
	begin := time.Now()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for next := interval; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-second.C:
		}
		m, err := srv.memory()
		if err != nil {
			return err
		}
		r.most.anon, r.most.resident = max(r.most.anon, m.anon), max(r.most.resident, m.resident)
		if since := time.Since(begin); since >= next {
			next += interval
			if err := r.row(ctx, srv, l, w, since, m); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

func (r *report) row(ctx context.Context, srv *server, l *load, w *watches, since time.Duration, m memory) error {
	values, err := srv.metrics(ctx)
	if err != nil {
		return err
	}
	live := values["go_gc_heap_live_bytes"]
	fmt.Printf("%12s %9d %8d %8.0f | %9.1f %8.1f %8.1f | %8.1f", since.Round(time.Second), l.sent.Load()+l.lists.Load(),
		w.events.Load(),
		values["kelson_store_objects"], live/mib, float64(m.anon)/mib, float64(m.resident)/mib, values[limit]/mib)
	evictions := 0.0
	for _, p := range parts {
		fmt.Printf(" %10.1f", values[fmt.Sprintf(used, p)]/mib)
		evictions += values[fmt.Sprintf(evicted, p)]
	}
	fmt.Printf(" %10.0f\n", evictions)
	if r.profiles == "" {
		return nil
	}
	profile, err := srv.send(ctx, http.MethodGet, "/debug/pprof/heap", "", nil)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.profiles, fmt.Sprintf("heap-%04.0f.pprof", since.Seconds())), profile, 0o644)
}

// idle measures the server after the load.
func (r *report) idle(ctx context.Context, srv *server) (err error) {
	r.idling, err = srv.settled(ctx)
	return err
}

// verdict prints the result, and returns an error if the server needed too much.
func (r *report) verdict(need memory) error {
	bound := need.anon*3/2 + 64*mib
	fmt.Printf("\nhighest: %.1f MiB private, %.1f MiB resident\n", float64(r.most.anon)/mib,
		float64(r.most.resident)/mib)
	fmt.Printf("idle after the load: %.1f MiB private, %.1f MiB resident\n", float64(r.idling.anon)/mib,
		float64(r.idling.resident)/mib)
	fmt.Printf("a new server with the same objects, after lists of all, idle: %.1f MiB private, %.1f MiB resident\n",
		float64(need.anon)/mib, float64(need.resident)/mib)
	fmt.Printf("bound, 1.5 × %.1f MiB + 64 MiB: %.1f MiB private\n", float64(need.anon)/mib, float64(bound)/mib)
	var errs []error
	if r.most.anon > bound {
		errs = append(errs, fmt.Errorf("the server had %.1f MiB of private memory; at most %.1f MiB are allowed",
			float64(r.most.anon)/mib, float64(bound)/mib))
	}
	return errors.Join(append(errs, r.watches)...)
}
