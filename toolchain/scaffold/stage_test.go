package scaffold

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// Files keep their line ends. Inside of a stage, all lines end with LF.
func TestStageKeepsLineEnds(t *testing.T) {
	dir := t.TempDir()
	require.Files(t, dir, map[string]string{
		"crlf": "a\r\nb\r\n", "lf": "a\nb\n", "mostly-crlf": "a\r\nb\nc\r\n", "mostly-lf": "a\nb\r\nc\n",
		"same": "a\r\n", "mixed": "a\r\nb\n",
	})
	st := newStage(dir)
	for _, name := range []string{"crlf", "lf", "mostly-crlf", "mostly-lf", "new"} {
		err := st.edit(name, func(src []byte) ([]byte, error) {
			if slices.Contains(src, '\r') {
				t.Errorf("%s has CR in the stage: %q", name, src)
			}
			return append(src, "end\n"...), nil
		})
		require.NoError(t, err)
	}
	st.write("same", []byte("a\n"))
	st.write("mixed", []byte("a\nb\n"))
	changes, err := st.commit()
	require.NoError(t, err)
	assert.Lenf(t, changes, 5, "5 files differ in more than line ends; changes")
	for name, want := range map[string]string{
		"crlf": "a\r\nb\r\nend\r\n", "lf": "a\nb\nend\n", "mostly-crlf": "a\r\nb\r\nc\r\nend\r\n",
		"mostly-lf": "a\nb\nc\nend\n", "new": "end\n",
		"same": "a\r\n", "mixed": "a\r\nb\n",
	} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
}
