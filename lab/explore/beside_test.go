package explore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/lab/explore"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// renames is an operator that names a Secret differently than its former version. It deletes the
// old one when it sees a ConfigMap: once, or again later.
func renames(again bool) explore.Scenario {
	s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		if cm.Name != "web" || cm.DeletionTimestamp != nil {
			return operator.Result{}, nil
		}
		old := ownedBy(cm, &corev1.Secret{})
		old.Name = cm.Name + "-key"
		if err := client.IgnoreNotFound(c.Delete(ctx, old)); err != nil {
			return operator.Result{}, err
		}
		var result operator.Result
		if again {
			result.RequeueAfter = time.Minute
		}
		return result, createSecret(ctx, c, cm, "-token", "a")
	})
	s.Former = eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		if cm.Name != "web" || cm.DeletionTimestamp != nil {
			return operator.Result{}, nil
		}
		time.Sleep(time.Second)
		return operator.Result{}, createSecret(ctx, c, cm, "-key", "a")
	}).Operator
	return s
}

// While a rolling update takes place, the former version may create an object that the new version
// has already looked for. An operator that looks for it once is found, also if its upgrade with one
// version after the other leaves nothing. One that looks again raises no alarm.
func TestFormerVersionBeside(t *testing.T) {
	alarms := alarmsOf(t, renames(false), explore.Beside, explore.Upgrade)
	a := alarms["O1 beside after operator former #1"]
	if len(alarms) != 1 || !strings.Contains(a.Detail, "secrets default/web-key: exists") {
		t.Errorf("an operator that looks once: %v", alarms)
	}
	steps := strings.Join(a.Steps, "\n")
	if begin, end := strings.Index(steps, "the newest version of the operator starts beside the former one"),
		strings.Index(steps, "the former version of the operator ends"); begin < 0 || end < begin {
		t.Errorf("the steps are\n%s", steps)
	}
	if alarms := alarmsOf(t, renames(true), explore.Beside, explore.Upgrade); len(alarms) > 0 {
		t.Errorf("an operator that looks again: %v", alarms)
	}
}

// Two processes of programs run at the same time in virtual time, with leader election: the newest
// version leads when the former one has ended. Equal plans have equal histories.
func TestFormerProgramBeside(t *testing.T) {
	const plan = "beside after operator former #1"
	s := virtualProgram(t, "CORRECT=yes", "LEASE=yes")
	s.FormerProgram = &explore.Binary{Path: s.Program.Path, Env: s.Program.Env}
	got, steps := replayed(t, s, plan)
	if got != "" || !strings.Contains(steps, "the newest version of the operator starts beside the former one") ||
		!strings.Contains(steps, "the former version of the operator ends") {
		t.Errorf("%q\n%s", got, steps)
	}
	repetition, err := explore.Repeat(t, s, plan, runs(t))
	if err != nil || repetition.Unequal > 0 {
		t.Errorf("%v, %v: want equal histories", repetition, err)
	}
	s.Program.Env, s.FormerProgram.Env = []string{"CORRECT=yes"}, []string{"CORRECT=yes"}
	if got, steps := replayed(t, s, plan); got != "" {
		t.Errorf("without leader election: %q\n%s", got, steps)
	}
}
