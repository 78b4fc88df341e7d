package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"kelson.dev/internal/require"
)

// OpenChecked opens a store that verifies its invariants before each publication.
func OpenChecked(t *testing.T, cfg Config) *Store {
	s, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	last := s.Snapshot()
	// Only the committer calls check, after work was sent to it.
	s.check = func(sn *Snapshot, events []*Event) {
		revision := last.revision
		for _, e := range events {
			if revision++; e.Revision() != revision {
				t.Errorf("revision %d after %d", e.Revision(), revision-1)
			}
		}
		if sn.revision != revision {
			t.Errorf("the snapshot is at %d, the last event at %d", sn.revision, revision)
		}
		last = sn
		if revision%16 == 0 || len(events) > 16 {
			if err := sn.view.verify(); err != nil {
				t.Errorf("at %d: %v", revision, err)
			}
		}
	}
	return s
}

// verify checks that trees and indexes agree.
func (v *view) verify() error {
	want := newView()
	var err error
	v.objects.Scan(func(path string, obj *Object) bool {
		if obj.path != path || obj.Key.path() != path {
			err = fmt.Errorf("%v at path %q", obj.Key, path)
		}
		want.replace(nil, obj)
		return err == nil
	})
	if err != nil {
		return err
	}
	for name, pair := range map[string][2][]string{
		"counts": {strings.Fields(fmt.Sprint(v.counts.KeyValues())),
			strings.Fields(fmt.Sprint(want.counts.KeyValues()))},
		"uids":   {v.uids.Keys(), want.uids.Keys()},
		"owners": {v.owners.Keys(), want.owners.Keys()},
	} {
		if !slices.Equal(pair[0], pair[1]) {
			return fmt.Errorf("%s are %q, want %q", name, pair[0], pair[1])
		}
	}
	return nil
}
