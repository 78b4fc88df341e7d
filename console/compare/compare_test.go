package compare

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/trace"
)

// records returns reconciles of a run, from lines "MILLISECONDS OBJECT WRITTEN [ERROR]".
func records(run, text string) []*trace.LineRecord {
	var all []*trace.LineRecord
	for i, line := range strings.Split(text, "\n") {
		f := strings.Fields(line)
		var ms int
		_, _ = fmt.Sscan(f[0], &ms)
		r := &trace.LineRecord{ID: uint64(i + 1), Run: run,
			Time: time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond), Controller: "c", Kind: "Web",
			Name: f[1]}
		if f[2] != "-" {
			r.Writes = []trace.LineWrite{{Verb: "create", Kind: "Pod", Name: f[2], Changed: true,
				ResourceVersion: run + f[0]}}
		}
		if len(f) > 3 {
			r.Error = f[3]
		}
		all = append(all, r)
	}
	return all
}

// Runs are equal if the reconciles of each object do the same, regardless of the order between
// objects.
func TestCompare(t *testing.T) {
	for _, tt := range []struct{ name, a, b, want string }{
		{"interleaved", "0 x p\n1 y q\n2 x -", "0 y q\n5 x p\n9 x -", "= = ="},
		{"differ", "0 x p\n1 y q\n2 x r\n3 x -", "0 x p\n1 y q\n2 x - conflict\n3 x r\n4 x -", "= = >x3 = ="},
		{"other result", "0 x p\n1 x q\n2 x -", "0 x p\n1 x z\n2 x -", "= x2|x2 ="},
		{"ends early", "0 x p\n1 y q\n2 x r", "0 x p", "= <y2 <x3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := append(records("a", tt.a), records("b", tt.b)...)
			state, err := compareRuns(all, "a", "b", true)
			require.NoError(t, err)
			var got []string
			for _, r := range state.Rows {
				switch {
				case r.Equal:
					got = append(got, "=")
				case r.A == nil:
					got = append(got, fmt.Sprintf(">%s%d", r.B.Name, r.B.ID))
				case r.B == nil:
					got = append(got, fmt.Sprintf("<%s%d", r.A.Name, r.A.ID))
				default:
					got = append(got, fmt.Sprintf("%s%d|%s%d", r.A.Name, r.A.ID, r.B.Name, r.B.ID))
				}
			}
			assert.Equal(t, strings.Join(got, " "), tt.want)
			if (state.First < 0) != !strings.ContainsAny(tt.want, "<>|") {
				t.Errorf("first difference at %d", state.First)
			}
		})
	}
}

func TestEqualRowsAreFolded(t *testing.T) {
	all := append(records("a", "0 x p\n1 x q\n2 x r\n3 x -"), records("b", "0 x p\n1 x q\n2 x s\n3 x -")...)
	state, err := compareRuns(all, "", "", false)
	if err != nil || len(state.Rows) != 3 || state.Rows[0].Times != 2 || state.First != 1 || state.Equal != 3 ||
		state.Different != 1 {
		data, _ := json.Marshal(state)
		t.Errorf("%v: %s", err, data)
	}
	if _, err := compareRuns(all, "a", "absent", false); err == nil {
		t.Error("an absent run was compared")
	}
}

// A lane that is too long to align is paired by position.
func TestLongRuns(t *testing.T) {
	long := make([]*trace.LineRecord, 2500)
	for i := range long {
		long[i] = &trace.LineRecord{Run: "a", ID: uint64(i + 1), RequeueAfter: fmt.Sprint(i % 7)}
	}
	if rows := pair(long, long[:2400]); len(rows) != 2500 || !rows[2399].Equal || rows[2400].Equal {
		t.Errorf("%d rows", len(rows))
	}
}
