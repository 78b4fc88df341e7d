package trace

import (
	"maps"
	"strings"
)

// Forget drops what is known of the objects of a cluster that is gone: who wrote them, and how often. Another cluster of that name begins
// anew.
func (t *Tracer) Forget(cluster string) {
	if t == nil {
		return
	}
	of := func(s subject) bool { return s.cluster == cluster }
	t.known.mu.Lock()
	t.known.writers.drop(func(w written) bool { return w.cluster == cluster })
	t.known.last.drop(of)
	t.known.mu.Unlock()

	t.loops.mu.Lock()
	defer t.loops.mu.Unlock()
	for _, a := range t.loops.activities.drop(of) {
		if a.suspicious {
			t.loops.suspects.Add(-1)
		}
	}
	// Loops were told by the names of their objects, as subject.String has them.
	t.loops.told.drop(func(name string) bool { return strings.Contains(name, " "+cluster+":") })
}

// drop takes out what is under some keys, and returns what get would have.
func (g *generations[K, V]) drop(which func(K) bool) map[K]V {
	dropped := map[K]V{}
	for _, generation := range []map[K]V{g.old, g.young} {
		maps.DeleteFunc(generation, func(k K, v V) bool {
			if !which(k) {
				return false
			}
			dropped[k] = v
			return true
		})
	}
	return dropped
}
