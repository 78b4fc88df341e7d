package store

// Changed returns the revision of the newest write to any of the resources. For a resource without
// writes since the store was opened, that is the revision at which it was opened. To cache a value
// computed from a Snapshot, call Changed before Snapshot: the value is valid until Changed returns
// a greater revision. O(1) per resource; writes have no extra cost.
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
