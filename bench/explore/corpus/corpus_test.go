package corpus

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator/client"
	"kelson.dev/test/section"
)

var docs = flag.String("docs", "", "file whose table is replaced")

// row is one bug.
type row struct {
	name, seen, bug, fault string
	operator               func(fixed bool) func() reconciler
	inputs                 []explore.Input
	invariants             []explore.Invariant
	oracles                string              // oracles that may find it; "" for a control
	owns                   []ctrlclient.Object // kinds of its children; nil for Secrets
}

func edit(change func(*corev1.ConfigMap)) explore.Input {
	return explore.Edit(resource(nil), change)
}

func data(key, value string) func(*corev1.ConfigMap) {
	return func(cm *corev1.ConfigMap) { cm.Data = map[string]string{key: value} }
}

var rows = []row{
	{"deletes by name", "rabbitmq/cluster-operator#648, pravega/zookeeper-operator#312, elastic/cloud-on-k8s#5249",
		"deletes a child by name without its UID", "F4", deletesByName,
		[]explore.Input{explore.Create(resource(nil)), explore.Delete(resource(nil)), explore.Create(resource(nil))},
		nil, "O1 O2 O13", nil},
	{"resizes after delete", "rabbitmq/cluster-operator#782", "deletes the set, then resizes its claim", "F1",
		deletesThenResizes,
		[]explore.Input{explore.Create(resource(map[string]string{"size": "1"})), edit(data("size", "2"))}, nil, "O1",
		nil},
	{"one check for two", "K8SPSMDB-578, K8SPXC-896", "one existence check for two Secrets", "F1", checksOne,
		[]explore.Input{explore.Create(resource(nil))}, nil, "O1", nil},
	{"progress in memory", "Orange-OpenSource/casskop#370", "keeps its progress in memory", "F1", remembers,
		[]explore.Input{explore.Create(resource(map[string]string{"members": "2"})), edit(data("members", "1"))}, nil,
		"O1 O9", nil},
	{"optional field", "K8SPSMDB-434", "dereferences an optional field that is not set", "F11", dereferences,
		[]explore.Input{explore.Create(resource(nil))}, nil, "O3", nil},
	{"writes back", "argoproj/argo-rollouts#4073, #3316", "writes back what it has read, over a change of a user", "F9",
		writesBack,
		[]explore.Input{explore.Create(resource(map[string]string{"paused": "true"})), edit(data("paused", "false"))},
		nil, "O1 O13", nil},
	{"counts its cache", "kubernetes-sigs/karpenter#2915", "a limit that is compared with the cache", "F4, F10",
		countsOnce,
		[]explore.Input{explore.Do("create three", createThree)},
		[]explore.Invariant{{Name: "limit", Rule: "all.Secret.size() <= 2"}}, "O2 O10", nil},
	{"applies", "kro#1170", "control: not a bug under a real server-side apply", "", applies,
		[]explore.Input{explore.Create(resource(map[string]string{"size": "1"})),
			explore.Flip(resource(nil), data("size", "2"))}, nil, "", nil},
	{"writes a child back", "argoproj/argo-rollouts PR #4044",
		"writes the response to its update of a ReplicaSet to the cache, over a later event", "F4", writesChildBack,
		[]explore.Input{explore.Create(resource(map[string]string{"size": "1"})), edit(data("size", "2"))}, nil,
		"O1 O11", []ctrlclient.Object{&appsv1.ReplicaSet{}}},
	{"believes its cache", "cert-manager PR #9097",
		"deletes candidates for a key other than the one that its cache names", "F4, F6", managesKey,
		[]explore.Input{explore.Create(resource(nil))}, nil, "O1 O2 O9", nil},
	{"external reference", "kubernetes-sigs/kro#1316",
		"computes a child again before it is deleted, from a deleted object", "F12", readsExternal,
		[]explore.Input{explore.Create(external()), explore.Create(resource(nil)),
			explore.Do("delete both", deleteBoth)}, nil, "O1 O3 O9", nil},
	{"counts failed Pods", "kubernetes-sigs/jobset PR #1276", "counts a leader Pod that has failed", "F15",
		countsLeaders,
		[]explore.Input{explore.Create(resource(nil))}, nil, "O3 O4 O7", []ctrlclient.Object{&corev1.Pod{}}},
	{"updates blindly", "–", "updates an object without its resourceVersion", "F9", updatesBlindly,
		[]explore.Input{explore.Create(resource(map[string]string{"size": "1"}))}, nil, "O13", nil},
	{"replaces finalizers", "–", "adds a finalizer by a merge patch without a lock", "F9", replacesFinalizers,
		[]explore.Input{explore.Create(resource(nil))}, nil, "O13", nil},
	{"ignores older objects", "–", "ignores resources that are older than its process", "F1", ignoresOlder,
		[]explore.Input{explore.Create(resource(nil))}, nil, "O1", nil},
	{"cleans up without a finalizer", "–", "deletes a child without an owner when it sees that the resource is gone, without a finalizer", "F1", cleansUp,
		[]explore.Input{explore.Create(resource(nil))}, nil, "O9", nil},
}

// createThree creates three resources before the operator sees one.
func createThree(ctx context.Context, c client.Client) error {
	for _, name := range []string{"a", "b", "c"} {
		cm := resource(nil)
		cm.Name = name
		if err := c.Create(ctx, cm); err != nil {
			return err
		}
	}
	return nil
}

// deleteBoth deletes a resource and the ConfigMap to which it refers, like a tool that deletes all
// manifests of a folder.
func deleteBoth(ctx context.Context, c client.Client) error {
	if err := c.Delete(ctx, external()); err != nil {
		return err
	}
	return c.Delete(ctx, resource(nil))
}

// Each bug of the corpus is found, and the operator without it raises no alarm.
func TestCorpus(t *testing.T) {
	var table strings.Builder
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			scenario := func(fixed bool) explore.Scenario {
				s := explore.Scenario{Operator: run(r.operator(fixed), &corev1.Secret{}), Inputs: r.inputs,
					Invariants: r.invariants}
				if r.owns != nil {
					s.Operator = run(r.operator(fixed), r.owns...)
					s.Env = []testenv.Option{testenv.Workloads(), testenv.Nodes(controlplane.NodeSimulated)}
				}
				return s
			}
			found, plans, took := "–", "–", time.Duration(0)
			if r.oracles != "" {
				begin := time.Now()
				report, err := explore.Explore(t, scenario(false),
					explore.Options{For: time.Hour, OneFault: true, UntilAlarm: true})
				t.Log(report.Summary())
				switch {
				case err != nil && r.fault == "F11" && strings.Contains(err.Error(), "("+r.oracles+")"):
					found, plans, took = "yes, "+r.oracles, "without faults", time.Since(begin)
				case err != nil:
					t.Fatal(err)
				case len(report.Alarms) == 0:
					t.Errorf("the bug is not found: %s", report.Summary())
					found = "no"
				default:
					a := report.Alarms[0]
					found, plans = fmt.Sprintf("yes, %s: `%s`", a.Oracle, a.Plan),
						fmt.Sprintf("%d of %d", report.Plans, report.OneFault-report.Skipped)
					took = report.Took
					if !strings.Contains(r.oracles, a.Oracle) {
						t.Errorf("found as %s by %s, want %s", a, a.Plan, r.oracles)
					}
				}
			}
			report, err := explore.Explore(t, scenario(true), explore.Options{For: time.Hour, OneFault: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range report.Alarms {
				t.Errorf("without the bug: %s\nfaults: %s", a, a.Plan)
			}
			fmt.Fprintf(&table, "| %s | %s | %s | %s | %.1f s | %d | %d |\n", r.bug, r.seen, found, plans,
				took.Seconds(), len(report.Alarms), report.Plans)
		})
	}
	if *docs != "" && !t.Failed() {
		const begin, end = "<!-- corpus -->\n", "<!-- end of corpus -->"
		head := "| bug | seen in | found | plans until then | time | alarms without the bug | plans without the bug |\n|---|---|---|---|---|---|---|\n"
		if err := section.Replace(*docs, begin, end, head+table.String()); err != nil {
			t.Error(err)
		}
	}
}
