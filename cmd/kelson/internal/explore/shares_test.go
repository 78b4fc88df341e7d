package explore

import (
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/lab/explore"
)

// TestMain runs the processes of explorations, which start this program as kelson explore.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "explore" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		c := Command()
		c.SetArgs(os.Args[2:])
		c.SilenceUsage = true
		if c.ExecuteContext(ctx) != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// An exploration in several processes runs the same plans with one fault as one in a single
// process, and reports the same, in the same order. Each warning is printed once.
func TestShares(t *testing.T) {
	require.Long(t, "compiles a program")
	dir := faultyProgram(t)
	type found struct {
		Plans, OneFault, Skipped, Left, Points, States int
		NotTried                                       string
		Alarms                                         []string
	}
	explored := func(parallel string) (f found, warned int) {
		out, errOut, err := runExplore(t, dir, "--output=json", "--one-fault", "--for=5m", "--parallel", parallel)
		var r Result
		if failed := json.Unmarshal([]byte(out), &r); failed != nil || err == nil || r.Error != "" {
			t.Fatalf("%v, %v, %s%s", err, failed, out, errOut)
		}
		f = found{Plans: r.Plans, OneFault: r.OneFault, Skipped: r.Skipped, Left: r.Left, Points: r.Points,
			States: r.States}
		for _, a := range r.Alarms {
			f.Alarms = append(f.Alarms, a.Oracle+" "+a.Plan+" "+a.SameAs+" "+a.Detail)
		}
		notTried, err := json.Marshal(r.NotTried)
		require.NoError(t, err)
		f.NotTried = string(notTried)
		return f, strings.Count(errOut, "unknown field")
	}
	one, warned := explored("1")
	if len(one.Alarms) == 0 || one.Plans == 0 || one.Left != 0 || warned != 1 {
		t.Fatalf("%+v and %d warnings, want plans, an alarm and a warning", one, warned)
	}
	three, warned := explored("3")
	if a, b := mustJSON(t, one), mustJSON(t, three); a != b || warned != 1 {
		t.Errorf("three processes found\n%s\nwith %d warnings, want as one process\n%s", b, warned, a)
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", " ")
	require.NoError(t, err)
	return string(data)
}

// faultyProgram writes a project whose operator has a bug, and whose sample has an unknown field.
func faultyProgram(t *testing.T) (dir string) {
	t.Helper()
	source, err := os.ReadFile("../../../../lab/explore/testdata/program/main.go")
	require.NoError(t, err)
	_, main, _ := strings.Cut(string(source), "\npackage main\n")
	dir = operator(t, main)
	const config = `roles: []
inputs: [create: {apiVersion: v1, kind: ConfigMap, color: red, metadata: {name: web, labels: {web: "yes"}}}]
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, explore.ConfigFile), []byte(config), 0o600))
	return dir
}

// If a process of an exploration ends early, the exploration fails, with the end of its output. The
// exploration also ends with its context.
func TestShareEnds(t *testing.T) {
	d := newDivision(t.TempDir(), &explore.Scenario{}, options{}, &warnings{to: t.Output()})
	var last explore.Message
	explore.DriveShares(t.Context(), 2, d.start, explore.Options{}, func(m explore.Message) { last = m })
	if last.Kind != "error" || !strings.Contains(last.Text, "ended early: exit status 1") ||
		!strings.Contains(last.Text, "explore.yaml") {
		t.Errorf("%+v, want the error of the process", last)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	explore.DriveShares(ctx, 2, d.start, explore.Options{}, func(m explore.Message) { last = m })
	if last.Kind != "error" || !strings.Contains(last.Text, context.Canceled.Error()) {
		t.Errorf("%+v, want that the exploration was canceled", last)
	}
}
