package explore_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/require"
	"kelson.dev/lab/explore"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// checks writes annotations into each ConfigMap every three minutes: the time, the number of the
// check, and what other returns for the number. After the second check, it creates a Secret.
func checks(forgets bool, other func(n int) string) explore.Scenario {
	s := explore.Scenario{Inputs: []explore.Input{explore.Create(configMap("web"))}}
	s.Operator = func(ctx context.Context, config *rest.Config) error {
		began := false // in the memory of the process
		check := func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
			if cm.Name != "web" || cm.DeletionTimestamp != nil {
				return operator.Result{}, nil
			}
			at, err := time.Parse(time.RFC3339, cm.Annotations["at"])
			if left := time.Until(at.Add(3 * time.Minute)); err == nil && left > 0 {
				return operator.Result{RequeueAfter: left}, nil
			}
			n, _ := strconv.Atoi(cm.Annotations["n"])
			if began = began || n == 0 || !forgets; n == 1 && began {
				if err := createSecret(ctx, c, cm, "-key", "a"); err != nil {
					return operator.Result{}, err
				}
			}
			cm = cm.DeepCopy()
			cm.Annotations = map[string]string{"at": time.Now().UTC().Format(time.RFC3339), "n": strconv.Itoa(n + 1),
				"other": other(n)}
			return operator.Result{RequeueAfter: 3 * time.Minute}, c.Update(ctx, cm)
		}
		return explore.Parts(operator.Name("each"), operator.For(func(d operator.Deps) *each {
			return &each{d, check}
		}))(ctx, config)
	}
	return s
}

// An operator that writes the time and a number every few minutes counts as quiet between these
// writes, also if quiet is shorter, and its bugs are found. One that changes other values each time
// is never quiet.
func TestPeriodicWrites(t *testing.T) {
	same := func(int) string { return "same" }
	const bug = "O1 kill-after update configmaps default/web #1"
	for name, test := range map[string]struct {
		scenario explore.Scenario
		want     string
	}{
		"correct": {checks(false, same), ""},
		"faulty":  {checks(true, same), bug},
	} {
		for _, quiet := range []time.Duration{0, 90 * time.Second} {
			s := test.scenario
			s.Quiet = quiet
			report, err := explore.Explore(t, s, explore.Options{For: time.Hour, OneFault: true,
				Kinds: []explore.Kind{explore.KillAfter, explore.KillBefore, explore.ClockJump, explore.Lose}})
			require.NoErrorf(t, err, "%s", name)
			var got []string
			for _, a := range report.Alarms {
				got = append(got, a.Oracle+" "+a.Plan.String())
			}
			if all := strings.Join(got, "\n"); (all == "") != (test.want == "") || !strings.Contains(all, test.want) {
				t.Errorf("%s, quiet %v: alarms %q, want %q\n%v", name, quiet, all, test.want, report.Alarms)
			}
			const note = "configmaps default/web every 3m0s"
			if !strings.Contains(report.Summary(), note) {
				t.Errorf("%s: no note %q in %s", name, note, report.Summary())
			}
		}
	}
	toggles := checks(false, func(n int) string { return []string{"on", "off"}[n%2] })
	report, err := explore.Explore(t, toggles, explore.Options{Check: true})
	if err != nil || len(report.Alarms) != 1 || report.Alarms[0].What != "never quiet" {
		t.Errorf("%v, %v, want the alarm never quiet", err, report.Alarms)
	}
}
