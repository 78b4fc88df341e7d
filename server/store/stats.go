package store

import (
	"sync/atomic"
	"time"
)

// Stats is what a store has done since it was opened, and what it holds.
type Stats struct {
	Commits     uint64        // units that were written
	Writes      uint64        // objects written by them
	Batches     uint64        // appends to the backend's log, or to memory: each takes the units that wait
	Appending   time.Duration // how long the backend took for them
	Checkpoints uint64        // how often the backend has written the whole state anew
	Objects     int           // in the newest state
	LogEvents   int           // kept for watches
	LogBytes    int           // of their objects
}

// counts are the part of Stats that adds up.
type counts struct{ commits, writes, batches, appending, checkpoints atomic.Uint64 }

// Stats are for metrics. Of a store over a Shared, only what this one wrote is counted, and no batches.
func (s *Store) Stats() Stats {
	stats := Stats{
		Commits: s.counts.commits.Load(), Writes: s.counts.writes.Load(), Batches: s.counts.batches.Load(),
		Appending:   time.Duration(s.counts.appending.Load()),
		Checkpoints: s.counts.checkpoints.Load(),
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	stats.Objects = s.current.Load().view.objects.Len()
	if all := s.logs[""]; all != nil {
		stats.LogEvents, stats.LogBytes = all.length, all.bytes // the logs of resources have the same events
	}
	return stats
}
