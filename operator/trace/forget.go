package trace

import "strings"

// Forget drops what is known of the objects of a cluster that is gone: who wrote them, and how often. Another cluster of that name begins
// anew.
func (t *Tracer) Forget(cluster string) {
	if t == nil {
		return
	}
	of := func(s subject) bool { return s.cluster == cluster }
	t.known.mu.Lock()
	t.known.writers.Drop(func(w written) bool { return w.cluster == cluster })
	t.known.last.Drop(of)
	t.known.mu.Unlock()

	t.loops.mu.Lock()
	defer t.loops.mu.Unlock()
	for _, a := range t.loops.activities.Drop(of) {
		t.loops.calm(a)
	}
	// Loops were told by the names of their objects, as subject.String has them.
	t.loops.told.Drop(func(name string) bool { return strings.Contains(name, " "+cluster+":") })
}
