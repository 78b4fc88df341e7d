package trace

import "strings"

// Forget drops the records about the objects of a disengaged cluster, so that a new cluster with
// that name starts without them.
func (t *Tracer) Forget(cluster string) {
	if t == nil {
		return
	}
	inCluster := func(s subject) bool { return s.cluster == cluster }
	t.known.mu.Lock()
	t.known.writers.Drop(func(w written) bool { return w.cluster == cluster })
	t.known.delivered.Drop(func(w written) bool { return w.cluster == cluster })
	t.known.last.Drop(inCluster)
	t.known.mu.Unlock()

	t.loops.mu.Lock()
	defer t.loops.mu.Unlock()
	for _, a := range t.loops.activities.Drop(inCluster) {
		t.loops.clearSuspicion(a)
	}
	// Reported loops are keyed by the names of their objects, in the format of subject.String.
	t.loops.reported.Drop(func(name string) bool { return strings.Contains(name, " "+cluster+":") })
}
