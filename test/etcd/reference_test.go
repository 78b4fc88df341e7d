package etcd_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	clientv3 "go.etcd.io/etcd/client/v3"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/require"
)

// reference is etcd's own history, read after all faults have ended.
type reference struct {
	revision uint64
	writes   []write
}

// write is a write of one key at one revision.
type write struct {
	revision uint64
	key      string // below the prefix
	payload  string // "" means deleted
	before   uint64 // the key's previous revision, or 0
}

// readReference reads the history of a prefix after a revision, until now.
func readReference(t *testing.T, client *clientv3.Client, prefix string, after uint64) *reference {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	now, err := client.Get(ctx, prefix)
	require.NoError(t, err)
	ref := &reference{revision: uint64(now.Header.Revision)}
	// Another write marks the end of the history, because the last event may be a deletion.
	end, err := client.Put(ctx, prefix+"-end", "")
	require.NoError(t, err)
	last := map[string]uint64{}
	for answer := range client.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(int64(after)+1)) {
		require.NoError(t, answer.Err())
		for _, e := range answer.Events {
			if e.Kv.ModRevision == end.Header.Revision {
				return ref
			}
			w := write{revision: uint64(e.Kv.ModRevision), key: strings.TrimPrefix(string(e.Kv.Key), prefix+"/")}
			w.before, last[w.key] = last[w.key], w.revision
			if e.Type == clientv3.EventTypePut {
				w.payload = payload(e.Kv.Value)
			} else {
				last[w.key] = 0
			}
			ref.writes = append(ref.writes, w)
		}
	}
	t.Fatal("did not reach the end of etcd's history")
	return nil
}

// checkState compares a state with the result of all writes.
func (ref *reference) checkState(t *testing.T, sn *store.Snapshot) {
	t.Helper()
	want := map[string]write{}
	for _, w := range ref.writes {
		want[w.key] = w
		if w.payload == "" {
			delete(want, w.key)
		}
	}
	for _, resource := range faultResources {
		for obj := range sn.Scan(resource, "", store.Key{}) {
			w, ok := want[name(obj.Key)]
			if !ok || w.revision != obj.Revision || w.payload != payload(obj.Data) {
				t.Errorf("the state has %s at %d with %q, etcd has %+v", name(obj.Key), obj.Revision, payload(obj.Data),
					w)
			}
			delete(want, name(obj.Key))
		}
	}
	for key, w := range want {
		t.Errorf("the state lacks %s: %+v", key, w)
	}
}

// checkCalls checks that acknowledged calls happened once and that refused ones did not, and
// resolves those with unknown outcome.
func (ref *reference) checkCalls(t *testing.T, w *observations) {
	units := map[uint64]map[string]string{}
	byPayload := map[string]uint64{}
	for _, one := range ref.writes {
		if units[one.revision] == nil {
			units[one.revision] = map[string]string{}
		}
		units[one.revision][one.key] = one.payload
		if one.payload != "" {
			if other, twice := byPayload[one.payload]; twice {
				t.Errorf("%q was written at %d and %d", one.payload, other, one.revision)
			}
			byPayload[one.payload] = one.revision
		}
	}
	owner := map[uint64]int{}
	for i, c := range w.calls {
		if c.revision == 0 {
			for _, text := range c.payloads {
				if at := byPayload[text]; at > 0 && c.refused {
					t.Errorf("%q was refused, but written at %d", text, at)
				}
			}
			continue
		}
		if other, twice := owner[c.revision]; twice {
			t.Errorf("revision %d belongs to two units: %v and %v", c.revision, w.calls[other].payloads, c.payloads)
		}
		owner[c.revision] = i
		if c.revision <= c.acknowledged {
			t.Errorf("revision %d was assigned after %d had been acknowledged", c.revision, c.acknowledged)
		}
		unit := units[c.revision]
		same := len(unit) == len(c.ops)
		for n, op := range c.ops {
			text, ok := unit[name(op.Key)]
			same = same && ok && text == c.payloads[n]
		}
		if !same {
			t.Errorf("%v was acknowledged at %d, where etcd has %v", c.payloads, c.revision, unit)
		}
	}
	// Each remaining unit must be a call with unknown outcome.
	for revision, unit := range units {
		if _, known := owner[revision]; known {
			continue
		}
		i := slices.IndexFunc(w.calls, func(c call) bool {
			return c.revision == 0 && !c.refused && ref.could(&c, revision, unit)
		})
		if i < 0 {
			t.Errorf("no call wrote %v at %d", unit, revision)
			continue
		}
		// the call may have ended at any time until now
		w.calls[i].revision, w.calls[i].ended = revision, w.now()
	}
}

// could reports whether a call with unknown outcome may have written the unit of a revision.
func (ref *reference) could(c *call, revision uint64, unit map[string]string) bool {
	if len(unit) != len(c.ops) {
		return false
	}
	for n, op := range c.ops {
		text, ok := unit[name(op.Key)]
		if !ok || text != c.payloads[n] {
			return false
		}
		if text == "" && !slices.ContainsFunc(ref.writes, func(w write) bool {
			return w.revision == revision && w.key == name(op.Key) && w.before == op.Expect
		}) {
			return false
		}
	}
	return true
}

// checkStreams compares every stream with its part of the history.
func (ref *reference) checkStreams(t *testing.T, w *observations) {
	for _, s := range w.streams {
		var want, got []string
		for _, one := range ref.writes {
			if one.revision > s.after && one.revision <= s.until &&
				(s.resource == "" || strings.HasPrefix(one.key, s.resource+"/")) {
				want = append(want, fmt.Sprint(one.revision, " ", one.key, " ", one.payload, " after ", one.before))
			}
		}
		for _, e := range s.events {
			text, before := payload(e.Object.Data), uint64(0)
			if e.Type == store.Deleted {
				text = ""
			}
			if e.Prev != nil {
				before = e.Prev.Revision
			}
			if (e.Prev == nil) != (e.Type == store.Added) {
				t.Errorf("event %v of %s has a previous state: %v", e.Type, name(e.Object.Key), e.Prev != nil)
			}
			got = append(got, fmt.Sprint(e.Revision(), " ", name(e.Object.Key), " ", text, " after ", before))
		}
		if !slices.Equal(unordered(got), unordered(want)) {
			t.Errorf("a watcher of %q after %d until %d saw\n%s\nwant\n%s", s.resource, s.after, s.until,
				strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if !slices.IsSortedFunc(s.events, func(a, b *store.Event) int {
			return int(a.Revision()) - int(b.Revision())
		}) {
			t.Errorf("a watcher of %q after %d saw events out of order", s.resource, s.after)
		}
	}
}

// unordered sorts the writes, because those of one unit may come in any order. The order of units
// is checked separately.
func unordered(lines []string) []string {
	lines = slices.Clone(lines)
	slices.Sort(lines)
	return lines
}

// access is an operation on a key, for porcupine: it writes a payload at a revision, or reads one.
type access struct {
	key      string
	write    bool
	revision uint64
	payload  string
	expect   uint64
}

// stored is the state of a key; the zero value means that it does not exist.
type stored struct {
	revision uint64
	payload  string
}

// register is the model of a key: it has the value of the last write, and writes check their
// precondition.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, op := range history {
			key := op.Input.(access).key
			byKey[key] = append(byKey[key], op)
		}
		return slices.Collect(maps.Values(byKey))
	},
	Init: func() any { return stored{} },
	Step: func(state, input, _ any) (bool, any) {
		now, a := state.(stored), input.(access)
		if !a.write {
			return now == stored{a.revision, a.payload}, now
		}
		if a.expect != store.AnyRevision && a.expect != now.revision || a.revision <= now.revision {
			return false, now
		}
		if a.payload == "" {
			return true, stored{}
		}
		return true, stored{a.revision, a.payload}
	},
}

// checkKeys checks that every key is linearizable.
func (ref *reference) checkKeys(t *testing.T, w *observations) {
	var history []porcupine.Operation
	add := func(who int, began, ended time.Duration, a access) {
		history = append(history, porcupine.Operation{ClientId: who, Input: a, Call: int64(began),
			Return: int64(ended)})
	}
	for _, c := range w.calls {
		for n, op := range c.ops {
			if c.revision > 0 {
				add(c.who, c.began, c.ended, access{name(op.Key), true, c.revision, c.payloads[n], op.Expect})
			}
		}
	}
	for _, l := range w.looks {
		add(l.who, l.began, l.ended, access{key: name(l.key), revision: l.revision, payload: l.payload})
	}
	switch result := porcupine.CheckOperationsTimeout(register, history, time.Minute); result {
	case porcupine.Ok:
		t.Logf("%d uses of keys are linearizable", len(history))
	default:
		t.Errorf("%d uses of keys: %s", len(history), result)
	}
}
