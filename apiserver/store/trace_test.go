package store_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/require"
)

var update = flag.Bool("update", false, "write the results into testdata/traces")

// TestTraces runs the files in testdata/traces. A line that begins with "> " is a command; the
// lines up to the next command or comment are its result. The keys are of pods in the namespace a.
//
//	> commit web@0 db@3 -old@4 ?web@2   one unit: create, update, delete, and a precondition; @any
//	> watch w after 3                   a cursor
//	> next w                            its events since the last call
//	> state [at 3]                      all objects with their revisions
//	> pin                               retain the current state for the pages of a list
//	> pinned 3                          the state of a page
//	> compact 3                         discard the history up to a revision
func TestTraces(t *testing.T) {
	files, err := filepath.Glob("testdata/traces/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no traces", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			p := &player{t: t, cursors: map[string]*store.Cursor{}, store: overBackend(t)}
			var got strings.Builder
			for line := range strings.Lines(string(want)) {
				command, is := strings.CutPrefix(line, "> ")
				switch {
				case is:
					got.WriteString(line + p.play(strings.Fields(command)))
				case strings.HasPrefix(line, "#") || line == "\n":
					got.WriteString(line)
				}
			}
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got.String()), 0o644))
			} else if got.String() != string(want) {
				t.Errorf("%s is\n%s\nwant\n%s", file, got.String(), want)
			}
		})
	}
}

// player runs the commands of a trace on a store.
type player struct {
	t       *testing.T
	store   *store.Store
	cursors map[string]*store.Cursor
}

func (p *player) play(words []string) string {
	switch words[0] {
	case "commit":
		return p.commit(words[1:])
	case "watch":
		c, err := p.store.Watch("pods", p.number(words[3]))
		if err != nil {
			return problem(err)
		}
		p.cursors[words[1]] = c
		return ""
	case "next":
		return p.next(p.cursors[words[1]])
	case "state":
		sn := p.store.Snapshot()
		if len(words) > 1 {
			var err error
			if sn, err = p.store.At(p.number(words[2])); err != nil {
				return problem(err)
			}
		}
		return objects(sn)
	case "pin":
		p.store.Pin(p.store.Snapshot())
		return ""
	case "pinned":
		sn, err := p.store.Pinned(p.number(words[1]))
		if err != nil {
			return problem(err)
		}
		return objects(sn)
	case "compact":
		if err := p.store.Compact(p.number(words[1])); err != nil {
			return problem(err)
		}
		return ""
	}
	p.t.Fatalf("unknown command %q", words)
	return ""
}

func (p *player) commit(words []string) string {
	ops := make([]store.Op, len(words))
	for i, word := range words {
		name, expect, _ := strings.Cut(word, "@")
		op := store.Op{Expect: store.AnyRevision}
		if expect != "any" {
			op.Expect = p.number(expect)
		}
		switch name[0] {
		case '-':
			name = name[1:]
		case '?':
			name, op.Check = name[1:], true
		default:
			op.Data = fmt.Appendf(nil, `{"metadata":{"namespace":"a","name":%q}}`, name)
		}
		op.Key = store.Key{Resource: "pods", Namespace: "a", Name: name}
		ops[i] = op
	}
	written, err := p.store.Commit(p.t.Context(), ops...)
	if err != nil {
		return problem(err)
	}
	var b strings.Builder
	for _, obj := range written {
		if obj != nil {
			fmt.Fprintf(&b, "%s is at %d\n", obj.Key.Name, obj.Revision)
		}
	}
	return b.String()
}

func (p *player) next(c *store.Cursor) string {
	events, revision, err := c.Next()
	if err != nil {
		return problem(err)
	}
	var b strings.Builder
	for _, e := range events {
		was := ""
		if e.Prev != nil {
			was = fmt.Sprintf(", was at %d", e.Prev.Revision)
		}
		kind := map[store.EventType]string{store.Added: "added", store.Modified: "modified", store.Deleted: "deleted"}[e.Type]
		fmt.Fprintf(&b, "%d %s %s%s\n", e.Revision(), kind, e.Object.Key.Name, was)
	}
	fmt.Fprintf(&b, "up to %d\n", revision)
	return b.String()
}

func (p *player) number(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(p.t, err)
	return n
}

func objects(sn *store.Snapshot) string {
	var b strings.Builder
	fmt.Fprintf(&b, "revision %d:", sn.Revision())
	for obj := range sn.Scan("pods", "", store.Key{}) {
		fmt.Fprintf(&b, " %s@%d", obj.Key.Name, obj.Revision)
	}
	return b.String() + "\n"
}

func problem(err error) string {
	if conflict := (*store.ConflictError)(nil); errors.As(err, &conflict) && conflict.Current != nil {
		return fmt.Sprintf("error: %v: it is at %d\n", err, conflict.Current.Revision)
	}
	return fmt.Sprintf("error: %v\n", err)
}
