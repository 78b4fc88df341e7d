package store

import (
	"sync/atomic"

	"kelson.dev/apiserver/internal/histogram"
)

// Stats is what a store has done since it was opened, and what it holds.
type Stats struct {
	Commits     uint64           // units that were written
	Writes      uint64           // objects written by them
	Batches     uint64           // appends to the backend's log, or to memory: each takes the units that wait
	Queue       int              // units that wait now
	Waiting     histogram.Counts // of units, from Commit until they were answered
	Appending   histogram.Counts // of batches by the backend
	Publishing  histogram.Counts // of batches to readers
	Checkpoints histogram.Counts // of the whole state, which the backend has written anew
	Objects     int              // in the newest state
	LogEvents   int              // kept for watches
	LogBytes    int              // of their objects
	Pins        int              // snapshots kept by Pin

	BackendStats
}

// BackendStats is what a Backend or a Shared can tell, one that implements Measured.
type BackendStats struct {
	// Disk is of a backend on a disk; nil: it is not.
	Disk *DiskStats
	// Requests are how long those to other machines took, by operation; nil: there are none.
	Requests map[string]histogram.Counts
}

// DiskStats is of a backend on a disk.
type DiskStats struct {
	LogBytes int64            // since the state was last written anew
	Syncs    histogram.Counts // of the log
}

// Measured is a Backend or a Shared that counts what it does. It must cope with being asked at any time.
type Measured interface{ Stats() BackendStats }

// counts are the part of Stats that adds up.
type counts struct {
	commits, writes, batches                    atomic.Uint64
	waiting, appending, publishing, checkpoints histogram.Histogram
}

// Stats are for metrics. Of a store over a Shared, only what this one wrote is counted, and no batches.
func (s *Store) Stats() Stats {
	stats := Stats{
		Commits: s.counts.commits.Load(), Writes: s.counts.writes.Load(), Batches: s.counts.batches.Load(),
		Queue: s.queue.length(), Waiting: s.counts.waiting.Read(),
		Appending: s.counts.appending.Read(), Publishing: s.counts.publishing.Read(), Checkpoints: s.counts.checkpoints.Read(),
	}
	var below any = s.backend
	if s.follower != nil {
		below = s.follower.shared
	}
	if m, ok := below.(Measured); ok {
		stats.BackendStats = m.Stats()
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	stats.Objects, stats.Pins = s.current.Load().view.objects.Len(), len(s.pins)
	if all := s.logs[""]; all != nil {
		stats.LogEvents, stats.LogBytes = all.length, all.bytes // the logs of resources have the same events
	}
	return stats
}
