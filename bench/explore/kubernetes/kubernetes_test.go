package kubernetes

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/testenv"
	"kelson.dev/test/section"
)

var (
	docs  = flag.String("docs", "", "file whose table is replaced")
	limit = flag.Duration("for", 0, "time for each controller, at most; 0 skips the test")
	kinds = flag.String("kinds", "", "kinds of faults, with commas; default: kills, lost responses, and old or late views")
	one   = flag.Bool("until-alarm", false, "end each exploration at its first alarm")
)

// faults are the kinds of faults that controllers meet in every cluster: kills, lost responses, and
// views that are old or lack a state.
var faults = []explore.Kind{explore.KillBefore, explore.KillAfter, explore.KillStale, explore.KillOld, explore.Lose,
	explore.Freeze, explore.FreezeAll, explore.Cut, explore.Down, explore.TwoLeaders}

// scenario returns a control plane that runs all controllers but the one of the row.
func (r row) scenario() explore.Scenario {
	return explore.Scenario{
		Operator: operator(r.construct),
		Env: []testenv.Option{testenv.Workloads(), testenv.Nodes(controlplane.Simulated{}),
			testenv.Controllers("*", "-"+r.name)},
		Inputs: r.inputs, Invariants: r.invariants,
		// The controllers expect their own writes for five minutes.
		Lag: time.Hour,
	}
}

func (r row) String() string {
	if r.without == "" {
		return r.name
	}
	return r.name + " without " + string(r.without)
}

// TestControllers explores each of Kubernetes' controllers.
func TestControllers(t *testing.T) {
	if *limit == 0 {
		t.Skip("needs -for; see make explore-kubernetes")
	}
	klog.SetLogger(klog.Logger{}) // the controllers log each write
	tried := faults
	if *kinds != "" {
		tried = nil
		for kind := range strings.SplitSeq(*kinds, ",") {
			tried = append(tried, explore.Kind(kind))
		}
	}
	var table strings.Builder
	for _, r := range rows {
		t.Run(r.String(), func(t *testing.T) {
			if r.without != "" {
				featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, r.without, false)
			}
			report, err := explore.Explore(t, r.scenario(),
				explore.Options{For: *limit, OneFault: true, UntilAlarm: *one, Kinds: tried})
			require.NoError(t, err)
			t.Log(report.Summary())
			for _, a := range report.Alarms {
				t.Logf("%s\nfaults: %s\n%s", a, a.Plan, strings.Join(a.Steps, "\n"))
			}
			if r.bug && len(report.Alarms) == 0 {
				t.Error("the bug is not found")
			}
			fmt.Fprintf(&table, "| %s | %d of %d | %d | %s |\n", r, report.Plans, report.OneFault-report.Skipped,
				report.Points, alarms(report.Alarms))
		})
	}
	if *docs != "" && !t.Failed() {
		const begin, end = "<!-- kubernetes -->\n", "<!-- end of kubernetes -->"
		head := "| controller | plans run, with one fault | points | alarms |\n|---|---|---|---|\n"
		assert.NoError(t, section.Replace(*docs, begin, end, head+table.String()))
	}
}

// alarms returns the cell of a table: the number of alarms, and the plan of the first one of each
// cause.
func alarms(all []explore.Alarm) string {
	text := fmt.Sprint(len(all))
	for _, a := range all {
		if a.SameAs == nil {
			text += fmt.Sprintf("; %s: `%s`", a.Oracle, a.Plan)
		}
	}
	return text
}
