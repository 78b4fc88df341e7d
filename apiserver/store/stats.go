package store

import (
	"sync/atomic"

	"kelson.dev/apiserver/internal/histogram"
)

// Stats describes the work that a store has done since it was opened, and its contents.
type Stats struct {
	Commits     uint64           // units written
	Writes      uint64           // objects written in these units
	Batches     uint64           // appends to the backend or to memory, each of all waiting units
	Queue       int              // units waiting now
	Waiting     histogram.Counts // time of units from Commit to the result
	Appending   histogram.Counts // time of batches in the backend
	Publishing  histogram.Counts // time to publish batches to readers
	Checkpoints histogram.Counts // time of checkpoints
	Objects     int              // objects in the newest state
	LogEvents   int              // retained for watches of all resources together
	LogBytes    int              // size of the objects that only logs have
	Pins        int              // snapshots retained by Pin
	Budget      BudgetStats

	BackendStats
}

// BackendStats is the part of Stats that a Backend or a Shared provides if it implements Measured.
type BackendStats struct {
	// Disk is nil unless the backend is on disk.
	Disk *DiskStats
	// Requests has the durations of requests to other machines, by operation; nil if there are
	// none.
	Requests map[string]histogram.Counts
}

// DiskStats describes a backend on disk.
type DiskStats struct {
	LogBytes int64            // size of the logs since the last checkpoint
	Syncs    histogram.Counts // time of syncs of the log
}

// Measured is a Backend or a Shared with statistics. Stats must be safe to call at any time,
// concurrently with all other methods.
type Measured interface{ Stats() BackendStats }

// counts is the cumulative part of Stats.
type counts struct {
	commits, writes, batches                    atomic.Uint64
	waiting, appending, publishing, checkpoints histogram.Histogram
}

// Stats returns statistics for metrics. For a store over a Shared, they count only writes of this
// store, and no batches.
func (s *Store) Stats() Stats {
	stats := Stats{
		Commits: s.counts.commits.Load(), Writes: s.counts.writes.Load(), Batches: s.counts.batches.Load(),
		Waiting: s.counts.waiting.Read(), Appending: s.counts.appending.Read(), Publishing: s.counts.publishing.Read(),
		Checkpoints: s.counts.checkpoints.Read(),
	}
	s.driver.stats(&stats)
	s.mu.RLock()
	defer s.mu.RUnlock()
	stats.Objects, stats.Pins = s.current.Load().view.objects.Len(), len(s.pins)
	if all := s.logs[""]; all != nil {
		stats.LogEvents = all.length // the logs per resource have the same events, and older ones
	}
	stats.LogBytes, stats.Budget = int(s.budget.logs.Load()), s.budget.stats()
	return stats
}
