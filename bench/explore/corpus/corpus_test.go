package corpus

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/test/section"
)

var docs = flag.String("docs", "", "file whose table is replaced")

// row is one bug.
type row struct {
	name, seen, bug string
	oracles         string // oracles that may find it; "" for a control
}

var rows = []row{
	{"deletes-by-name", "rabbitmq/cluster-operator#648, pravega/zookeeper-operator#312, elastic/cloud-on-k8s#5249",
		"deletes a child by name without its UID", "O1 O2 O13"},
	{"resizes-after-delete", "rabbitmq/cluster-operator#782", "deletes the set, then resizes its claim", "O1"},
	{"one-check-for-two", "K8SPSMDB-578, K8SPXC-896", "one existence check for two Secrets", "O1"},
	{"progress-in-memory", "Orange-OpenSource/casskop#370", "keeps its progress in memory", "O1 O9"},
	{"optional-field", "K8SPSMDB-434", "dereferences an optional field that is not set", "O3"},
	{"writes-back", "argoproj/argo-rollouts#4073, #3316", "writes back what it has read, over a change of a user",
		"O1 O13"},
	{"counts-its-cache", "kubernetes-sigs/karpenter#2915", "a limit that is compared with the cache", "O2 O10"},
	{"applies", "kro#1170", "control: not a bug under a real server-side apply", ""},
	{"writes-a-child-back", "argoproj/argo-rollouts PR #4044",
		"writes the response to its update of a ReplicaSet to the cache, over a later event", "O1 O11"},
	{"trusts-its-cache", "cert-manager PR #9097",
		"deletes candidates for a key other than the one that its cache names", "O1 O2 O9"},
	{"external-reference", "kubernetes-sigs/kro#1316",
		"computes a child again before it is deleted, from a deleted object", "O1 O3 O9"},
	{"counts-failed-pods", "kubernetes-sigs/jobset PR #1276", "counts a leader Pod that has failed", "O3 O4 O7"},
	{"updates-blindly", "–", "updates an object without its resourceVersion", "O13"},
	{"replaces-finalizers", "–", "adds a finalizer by a merge patch without a lock", "O13"},
	{"ignores-older-objects", "–", "ignores resources that are older than its process", "O1"},
	{"cleans-up-without-finalizer", "–",
		"deletes a child without an owner when it sees that the resource is gone, without a finalizer", "O9"},
}

// result contains the fields in the output of kelson explore that the table shows.
type result struct {
	Plans, OneFault, Skipped int
	Seconds                  float64
	Alarms                   []struct{ Oracle, What, Detail, Plan string }
}

// explored runs kelson explore on a project of the corpus, with further arguments. It ends at the
// first alarm, which makes the command fail.
func explored(t *testing.T, kelson, name string, arguments ...string) (r result) {
	t.Helper()
	cmd := exec.Command(kelson, append([]string{"explore", filepath.Join("projects", name), "--generate=false",
		"--one-fault", "--for", "10m", "--until-alarm", "--output", "json"}, arguments...)...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	failed := cmd.Run()
	require.NoErrorf(t, json.Unmarshal(out.Bytes(), &r), "%v: %v\n%s%s", cmd, failed, &out, &problems)
	return r
}

// kelson explore finds each bug of the corpus with the project's explore.yaml, and raises no alarm
// for the operator without it.
func TestCorpus(t *testing.T) {
	kelson := os.Getenv("KELSON")
	if kelson == "" {
		t.Skip("SKIPPED: KELSON is not set; make explore-corpus sets it")
	}
	var table strings.Builder
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			found, plans, seconds := "–", "–", "–"
			if r.oracles != "" {
				buggy := explored(t, kelson, r.name)
				plans, seconds = fmt.Sprintf("%d of %d", buggy.Plans, buggy.OneFault-buggy.Skipped),
					fmt.Sprintf("%.1f s", buggy.Seconds)
				if len(buggy.Alarms) == 0 {
					t.Fatalf("the bug is not found by %s plans", plans)
				}
				a := buggy.Alarms[0]
				found = "yes, " + a.Oracle
				if a.Plan != "" {
					found += ": `" + a.Plan + "`"
				}
				if !strings.Contains(r.oracles, a.Oracle) {
					t.Errorf("found as %s %s by %s, want %s", a.Oracle, a.Detail, a.Plan, r.oracles)
				}
			}
			fixed := explored(t, kelson, r.name, "--", "-fixed")
			for _, a := range fixed.Alarms {
				t.Errorf("without the bug: %s %s: %s\nfaults: %s", a.Oracle, a.What, a.Detail, a.Plan)
			}
			fmt.Fprintf(&table, "| %s | %s | %s | %s | %s | %d | %d of %d |\n", r.bug, r.seen, found, plans, seconds,
				len(fixed.Alarms), fixed.Plans, fixed.OneFault-fixed.Skipped)
		})
	}
	if *docs != "" && !t.Failed() {
		const begin, end = "<!-- corpus -->\n", "<!-- end of corpus -->"
		head := "| bug | seen in | found, first alarm | plans | time | alarms without the bug | plans without the bug |\n" +
			"|---|---|---|---|---|---|---|\n"
		assert.NoError(t, section.Replace(*docs, begin, end, head+table.String()))
	}
}
