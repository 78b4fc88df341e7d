package scaffold_test

import (
	"strings"
	"testing"

	"kelson.dev/toolchain/scaffold/merge"
)

func text(s string) []byte { return []byte(strings.ReplaceAll(s, " ", "\n") + "\n") }

// Changes of one side, and equal changes, are merged. Different changes of the same lines become
// conflicts with markers.
func TestMerge(t *testing.T) {
	for _, test := range []struct {
		base, ours, theirs, want string
		conflicts                int
	}{
		{"a b c", "a b c", "a b c", "a b c", 0},
		{"a b c", "a x c", "a b c", "a x c", 0},
		{"a b c", "a b c", "a y c", "a y c", 0},
		{"a b c d e", "x b c d e", "a b c d y", "x b c d y", 0},
		{"a b c", "a x c", "a x c", "a x c", 0},
		{"a b c", "a c", "a b c d", "a c d", 0},
		{"a b c", "a b c mine", "new a b c", "new a b c mine", 0},
		{"a b c", "a x c", "a y c", "a <<<<<<<_yours x ======= y >>>>>>>_template c", 1},
		{"a b c", "a c", "a y c", "a <<<<<<<_yours ======= y >>>>>>>_template c", 1},
		{"a b c d e", "a 1 c 2 e", "a 3 c 4 e",
			"a <<<<<<<_yours 1 ======= 3 >>>>>>>_template c <<<<<<<_yours 2 ======= 4 >>>>>>>_template e", 2},
	} {
		got, conflicts := merge.Merge(text(test.base), text(test.ours), text(test.theirs))
		want := strings.ReplaceAll(string(text(test.want)), "_", " ")
		if string(got) != want || conflicts != test.conflicts {
			t.Errorf("%q, %q and %q: %d conflicts\n%s", test.base, test.ours, test.theirs, conflicts, got)
		}
	}
}

func FuzzMerge(f *testing.F) {
	f.Add("a\nb\n", "a\n", "b\n")
	f.Fuzz(func(t *testing.T, base, ours, theirs string) {
		for _, s := range []string{base, ours, theirs} {
			if len(s) > 2000 || s != "" && !strings.HasSuffix(s, "\n") {
				t.Skip()
			}
		}
		if got, n := merge.Merge([]byte(base), []byte(ours), []byte(base)); n != 0 || string(got) != ours {
			t.Errorf("only our side has a change, and the result is %q", got)
		}
		if got, n := merge.Merge([]byte(base), []byte(base), []byte(theirs)); n != 0 || string(got) != theirs {
			t.Errorf("only their side has a change, and the result is %q", got)
		}
		merge.Merge([]byte(base), []byte(ours), []byte(theirs))
	})
}
