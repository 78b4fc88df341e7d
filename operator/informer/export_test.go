package informer

// Pending returns the number of entries in all overlays.
func Pending(set Informers) int {
	n := 0
	for _, i := range set.(*informers).all() {
		i.mu.Lock()
		n += len(i.written)
		i.mu.Unlock()
	}
	return n
}
