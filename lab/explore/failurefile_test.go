package explore_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/lab/explored"
)

// The console's tests read this file as one of kelson explore.
func TestFailureFile(t *testing.T) {
	failure := explored.Failure{
		Oracle: "O1", What: "another end", Detail: "pods differ", Plan: "kill-after create pods default/web #1",
		Steps: []string{"input: create web", "FAULT kill-after"},
		Curve: []explored.Point{{Step: 1, Text: "FAULT kill-after", Failures: 4, Runs: 4}},
	}
	data, err := json.MarshalIndent(failure, "", "  ")
	require.NoError(t, err)
	want, err := os.ReadFile("testdata/failure.json")
	if err != nil || strings.TrimSpace(string(want)) != string(data) {
		t.Errorf("testdata/failure.json is not (%v):\n%s", err, data)
	}
}
