package explore_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/lab/explore"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// withIssuer is an operator that creates a Secret, beside another operator that creates two, and
// looks only for one of them: the first or, if it is correct, the second.
func withIssuer(correct bool) explore.Scenario {
	s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		return operator.Result{}, createSecret(ctx, c, cm, "-token", "a")
	})
	issuer := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		last := "-key"
		if correct {
			last = "-cert"
		}
		err := c.Get(ctx, client.Key{Namespace: cm.Namespace, Name: cm.Name + last}, &corev1.Secret{})
		if client.IgnoreNotFound(err) != nil || err == nil {
			return operator.Result{}, err
		}
		for _, suffix := range []string{"-key", "-cert"} {
			if err := createSecret(ctx, c, cm, suffix, "a"); err != nil {
				return operator.Result{}, err
			}
		}
		return operator.Result{}, nil
	})
	s.Others = []explore.Other{{Name: "issuer", Operator: issuer.Operator}}
	return s
}

// A kill at a write of another operator kills its process only, and finds its bug. The steps name
// the operator.
func TestSeveralOperators(t *testing.T) {
	const plan = "kill-after create secrets default/web-key #1"
	alarms := alarmsOf(t, withIssuer(false), explore.KillAfter)
	a := alarms["O1 "+plan]
	if len(alarms) != 1 || !strings.Contains(a.Detail, "secrets default/web-cert: is missing") {
		t.Errorf("a faulty operator: %v", alarms)
	}
	steps := strings.Join(a.Steps, "\n")
	for _, want := range []string{"request: issuer: create secrets default/web-key",
		"the process of the operator issuer is killed", "request: create secrets default/web-token"} {
		if !strings.Contains(steps, want) {
			t.Errorf("no %q in\n%s", want, steps)
		}
	}
	if alarms := alarmsOf(t, withIssuer(true), explore.KillBefore, explore.KillAfter, explore.KillStale, explore.Lose,
		explore.TwoLeaders, explore.ServerRestart); len(alarms) > 0 {
		t.Errorf("a correct operator: %v", alarms)
	}
	s := withIssuer(true)
	s.Others[0].Operator = eachConfigMap(func(context.Context, client.Client, *corev1.ConfigMap) (operator.Result,
		error) {
		panic("no issuer")
	}).Operator
	if got, _ := replayed(t, s, "no faults"); !strings.HasPrefix(got, "O3 ") || !strings.Contains(got, "no issuer") {
		t.Errorf("another operator panics: %q", got)
	}
	s.Others[0].Name = ""
	_, err := explore.Explore(t, s, explore.Options{Check: true})
	assert.ErrorContainsf(t, err, "Others need different names", "no name")
}

// Two operators run as programs in virtual time. Equal plans have equal histories.
func TestSeveralPrograms(t *testing.T) {
	s := virtualProgram(t, "CORRECT=yes")
	s.Others = []explore.Other{{Name: "issuer", Program: &explore.Binary{Path: s.Program.Path,
		Env: []string{"SUFFIX=-issued"}}}}
	const plan = "kill-after create secrets default/web-issued-key #1"
	got, steps := replayed(t, s, plan)
	if !strings.Contains(got, "O1 secrets default/web-issued-cert: is missing") ||
		!strings.Contains(steps, "the process of the operator issuer is killed") {
		t.Errorf("%q\n%s", got, steps)
	}
	for _, plan := range []string{"", plan} {
		repetition, err := explore.Repeat(t, s, plan, runs(t))
		if err != nil || repetition.Unequal > 0 {
			t.Errorf("%v, %v: want equal histories", repetition, err)
		}
	}
	s.Others[0].Program.Env = append(s.Others[0].Program.Env, "CORRECT=yes")
	if got, steps := replayed(t, s, plan); got != "" {
		t.Errorf("a correct operator: %q\n%s", got, steps)
	}
}
