package store

// Changed returns the revision of the newest write to any of some resources; of one that was never written since the store was opened,
// the revision it was opened at. Take it before the Snapshot that is to be looked at: what is then made of the snapshot holds at least
// until Changed answers something greater. O(1) for each resource, and a write costs nothing for it.
func (s *Store) Changed(resources ...string) uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	newest := s.base
	for _, resource := range resources {
		if l := s.logs[resource]; l != nil {
			newest = max(newest, l.newest())
		}
	}
	return newest
}
