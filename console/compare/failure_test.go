package compare

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/explored"
)

// show returns the page's content for a failure file.
func show(t *testing.T, file any, query string) (*FailureState, error) {
	t.Helper()
	data, err := json.Marshal(file)
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "failure.json")
	require.NoError(t, os.WriteFile(name, data, 0o600))
	s := &Server{Failure: name}
	got, err := s.failure(httptest.NewRequest("GET", "/api/failure"+query, nil))
	if err != nil {
		return nil, err
	}
	return got.(map[string]any)["failure"].(*FailureState), nil
}

// A file that kelson explore writes.
func TestFailureOfExplore(t *testing.T) {
	written, err := os.ReadFile("../../lab/explore/testdata/failure.json")
	require.NoError(t, err)
	f, err := show(t, json.RawMessage(written), "")
	require.NoError(t, err)
	if f.Oracle != "O1" || f.What != "another end" || f.Detail != "pods differ" || f.Plan == "" || len(f.Rows) != 2 ||
		f.Rows[1].B != 2 || f.First != -1 {
		t.Errorf("%+v", f)
	}
	if len(f.Curve) != 1 || f.Curve[0] != (explored.Point{Step: 1, Text: "FAULT kill-after", Failures: 4, Runs: 4}) {
		t.Errorf("curve %+v", f.Curve)
	}
}

// The page shows both runs side by side, and the fields in which their final states differ.
func TestFailureRuns(t *testing.T) {
	object := func(fields string) map[string]any {
		o := map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(fields), &o))
		return o
	}
	file := map[string]any{
		"what": "another end", "plan": "kill",
		"passing": map[string]any{"steps": []string{"a", "b", "c", "d"}, "objects": map[string]any{
			"pods default/web":     []any{object(`{"spec":{"size":1}}`)},
			"secrets default/key":  []any{object(`{"data":{"password":"aHVudGVyMg=="}}`)},
			"services default/web": []any{object(`{}`)}}},
		"failing": map[string]any{"steps": []string{"a", "b", "FAULT kill", "d", "e"}, "objects": map[string]any{
			"pods default/web":    []any{object(`{"spec":{"size":2}}`), object(`{}`)},
			"secrets default/key": []any{object(`{"data":{"password":"b3RoZXI="}}`)}}},
	}
	f, err := show(t, file, "")
	require.NoError(t, err)
	text := ""
	for _, r := range f.Rows {
		text += r.TextA + "|" + r.TextB + " "
	}
	if text != "b|b c|FAULT kill d|d |e " || f.First != 1 || f.Rows[0].Times != 2 || f.Rows[1].B != 3 {
		t.Errorf("rows %q, first %d: %+v", text, f.First, f.Rows)
	}
	data, err := json.Marshal(f)
	require.NoError(t, err)
	want := `"different":[{"object":"pods default/web","path":".spec.size","a":"1","b":"2"},{"object":"pods default/web","b":"exists"},` +
		`{"object":"secrets default/key","path":".data.password","a":"(hidden)","b":"(hidden)"},{"object":"services default/web","a":"exists"}]`
	assert.Contains(t, string(data), want)
	if strings.Contains(string(data), "aHVudGVyMg") {
		t.Error("the value of a Secret is not hidden")
	}
	if f, err = show(t, file, "?all=true"); err != nil || len(f.Rows) != 5 {
		t.Errorf("all: %+v, %v", f, err)
	}
	_, err = show(t, map[string]any{"kind": "Pod"}, "")
	assert.ErrorContainsf(t, err, "kelson explore writes failures", "another file")
}
