package explore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/require"
	"kelson.dev/lab/explore"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// each is a reconciler of ConfigMaps that calls a function.
type each struct {
	operator.Deps
	do func(context.Context, client.Client, *corev1.ConfigMap) (operator.Result, error)
}

func (r *each) Reconcile(ctx context.Context, cm *corev1.ConfigMap) (operator.Result, error) {
	if cm.Name == "kube-root-ca.crt" || cm.DeletionTimestamp != nil {
		return operator.Result{}, nil
	}
	return r.do(ctx, r.Client, cm)
}

func eachConfigMap(do func(context.Context, client.Client,
	*corev1.ConfigMap) (operator.Result, error)) explore.Scenario {
	return explore.Scenario{
		Operator: explore.Parts(operator.Name("each"), operator.For(func(d operator.Deps) *each {
			return &each{d, do}
		})),
		Inputs: []explore.Input{explore.Create(configMap("web"))},
	}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func createSecret(ctx context.Context, c client.Client, owner *corev1.ConfigMap, suffix, value string) error {
	err := c.Create(ctx, &corev1.Secret{Data: map[string][]byte{"value": []byte(value)},
		ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name + suffix,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner,
				corev1.SchemeGroupVersion.WithKind("ConfigMap"))}}})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// Explorations of unsuitable operators and scenarios fail with an error that names the cause.
func TestRefusedScenarios(t *testing.T) {
	idle := eachConfigMap(func(context.Context, client.Client, *corev1.ConfigMap) (operator.Result, error) {
		return operator.Result{}, nil
	})
	with := func(change func(*explore.Scenario)) explore.Scenario {
		s := idle
		change(&s)
		return s
	}
	for name, test := range map[string]struct {
		scenario explore.Scenario
		want     string
	}{
		"no operator": {with(func(s *explore.Scenario) { s.Operator = nil }), "the scenario has no Operator"},
		"no inputs":   {with(func(s *explore.Scenario) { s.Inputs = nil }), "the scenario has no Inputs"},
		"ignore": {with(func(s *explore.Scenario) {
			s.Ignore = []string{"jobs"}
		}), `Ignore has "jobs": want RESOURCE FIELD.FIELD`},
		"watch lists": {with(func(s *explore.Scenario) {
			s.WatchList = "on"
		}), `WatchList: "on" is not one of "served" and "refused"`},
		"horizon": {with(func(s *explore.Scenario) {
			s.Horizon = time.Minute
		}), "Horizon (1m0s) is shorter than Quiet (5m0s)"},
		"invariant": {with(func(s *explore.Scenario) {
			s.Invariants = []explore.Invariant{{Name: "one"}}
		}), `invariant "one" has neither Check nor Rule`},
		"rule of an unknown variable": {with(func(s *explore.Scenario) {
			s.Invariants = []explore.Invariant{{Name: "one", Rule: "objct == null"}}
		}),
			`invariant "one": ERROR: <input>:1:1: undeclared reference to 'objct'`},
		"rule that is not a condition": {with(func(s *explore.Scenario) {
			s.Invariants = []explore.Invariant{{Name: "one", Rule: "size(all.Secret)"}}
		}), `invariant "one": the rule "size(all.Secret)" is a value of type int, want bool`},
		"rule of an unknown kind": {with(func(s *explore.Scenario) {
			s.Invariants = []explore.Invariant{{Name: "one", Rule: "size(all.Secrets) < 2"}}
		}), `invariant "one": the control plane serves no kind "Secrets"`},
		"a resource without its group": {with(func(s *explore.Scenario) {
			s.Ignore = []string{"jobs status.failed"}
		}), `Ignore has "jobs status.failed": the control plane serves no resource "jobs": write jobs.batch`},
		"rule about all kinds": {with(func(s *explore.Scenario) {
			s.Invariants = []explore.Invariant{{Name: "one", Rule: "size(all) < 2"}}
		}),
			"the variable all must be followed by a kind, as in all.Pod"},
		"rule without has": {with(func(s *explore.Scenario) {
			s.Invariants = []explore.Invariant{{Name: "one", Kind: "ConfigMap", Rule: "object.data.size() < 2"}}
		}), "one (O10): ADDED ConfigMap default/web: evaluate: no such key: data; test for fields that may be missing with has()"},
		"refused input": {with(func(s *explore.Scenario) {
			s.Inputs = []explore.Input{explore.Create(configMap("Web"))}
		}),
			`input "create ConfigMap default/Web": ConfigMap "Web" is invalid: metadata.name`},
		"never quiet": {func() explore.Scenario {
			s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result,
				error) {
				cm.Data = map[string]string{"at": time.Now().Truncate(time.Minute).String()}
				return operator.Result{RequeueAfter: time.Minute}, c.Update(ctx, cm)
			})
			s.Horizon = time.Hour
			return s
		}(), "never quiet (O4): after 1h0m0s objects still change: MODIFIED configmaps default/web; the longest of the last pauses was 1m0s. " +
			"If the operator changes them regularly by design, set quiet in explore.yaml to less, such as 30s"},
		"hot loop": {eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result,
			error) {
			cm.Data = map[string]string{"n": cm.Data["n"] + "1"}
			if len(cm.Data["n"]) > 9 {
				cm.Data["n"] = ""
			}
			return operator.Result{}, c.Update(ctx, cm)
		}), "the operator is not quiet; most often: update configmaps default/web ("},
		"ends": {with(func(s *explore.Scenario) {
			s.Operator = func(context.Context, *rest.Config) error { return errors.New("no such flag") }
		}), "the operator ended (O3): no such flag"},
		"leaves goroutines": {with(func(s *explore.Scenario) {
			run := s.Operator
			s.Operator = func(ctx context.Context, config *rest.Config) error {
				go func() { <-make(chan bool) }()
				return run(ctx, config)
			}
		}), "goroutines that do not end with its process"},
		"panics at the start": {with(func(s *explore.Scenario) {
			s.Operator = func(context.Context, *rest.Config) error { panic("no configuration") }
		}), "the operator panics (O3): panic: no configuration at "},
		"panics in a reconcile": {eachConfigMap(func(context.Context, client.Client,
			*corev1.ConfigMap) (operator.Result, error) {
			panic("no size")
		}), "a reconciler panics (O3): panic: no size at "},
	} {
		t.Run(name, func(t *testing.T) {
			report, err := explore.Explore(t, test.scenario, explore.Options{For: time.Hour, OneFault: true})
			text := fmt.Sprint(err, report.Alarms)
			if !strings.Contains(text, test.want) || report.Plans > 0 {
				t.Fatalf("%s after %d plans, want %q and no plan", text, report.Plans, test.want)
			}
			if strings.HasPrefix(name, "panics") && !strings.Contains(text, "messages_test.go:") {
				t.Errorf("%s: does not say where", text)
			}
			if len(report.Alarms) > 0 && name != "hot loop" { // which takes seconds
				alarms, _ := explore.ReplayPlan(t, test.scenario, "no faults")
				if len(alarms) != 1 || alarms[0].String() != report.Alarms[0].String() {
					t.Errorf("a replay has the alarms %v, want %v", alarms, report.Alarms)
				}
			}
		})
	}
}

// A panic that only a fault causes is found, although the controller recovers from it.
func TestFindsPanicAfterFault(t *testing.T) {
	report, err := explore.Explore(t, eachConfigMap(func(ctx context.Context, c client.Client,
		cm *corev1.ConfigMap) (operator.Result, error) {
		var key, cert corev1.Secret
		err := c.Get(ctx, client.Key{Namespace: cm.Namespace, Name: cm.Name + "-key"}, &key)
		if apierrors.IsNotFound(err) {
			if err := createSecret(ctx, c, cm, "-key", "a"); err != nil {
				return operator.Result{}, err
			}
			return operator.Result{}, createSecret(ctx, c, cm, "-cert", "b")
		}
		if err == nil {
			_ = c.Get(ctx, client.Key{Namespace: cm.Namespace, Name: cm.Name + "-cert"}, &cert)
			_ = cert.Data["value"][0] // the bug: not every Secret exists
		}
		return operator.Result{}, err
	}), explore.Options{For: time.Hour, OneFault: true, Kinds: []explore.Kind{explore.KillAfter}})
	require.NoError(t, err)
	if len(report.Alarms) == 0 || report.Alarms[0].Oracle != "O3" ||
		!strings.Contains(report.Alarms[0].Detail, "index out of range [0] with length 0 at ") {
		t.Errorf("%v", report.Alarms)
	}
}

// An invariant in CEL is checked at every version, with the version before and the other objects.
func TestRules(t *testing.T) {
	require.Long(t, "explores for several seconds")
	// The operator deletes the key before it creates the next one, if a write fails in between.
	scenario := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result,
		error) {
		if err := createSecret(ctx, c, cm, "-1", "a"); err != nil {
			return operator.Result{}, err
		}
		if err := createSecret(ctx, c, cm, "-2", "b"); err != nil {
			return operator.Result{}, errors.Join(err, createSecret(ctx, c, cm, "-3", "c"))
		}
		return operator.Result{}, nil
	})
	for name, test := range map[string]struct{ kind, rule, want string }{
		"other objects": {"", "all.Secret.size() <= 2",
			"ADDED Secret default/web-3: the rule does not hold: all.Secret.size() <= 2"},
		"object": {"Secret", "object == null || !object.metadata.name.endsWith('-3')",
			"ADDED Secret default/web-3: the rule"},
		"old object": {"Secret", "oldObject == null || oldObject.metadata.name != 'web-3'",
			"DELETED Secret default/web-3: the rule"},
		"holds": {"Secret", "has((object == null ? oldObject : object).data)", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := scenario
			s.Invariants = []explore.Invariant{{Name: "rule", Kind: test.kind, Rule: test.rule}}
			report, err := explore.Explore(t, s, explore.Options{For: time.Hour, OneFault: true,
				Kinds: []explore.Kind{explore.Internal, explore.Lose}})
			require.NoError(t, err)
			var found []string
			for _, a := range report.Alarms {
				if a.Oracle == "O10" {
					found = append(found, a.Detail)
				}
			}
			if test.want == "" && len(found) > 0 || test.want != "" &&
				(len(found) == 0 || !strings.Contains(found[0], test.want)) {
				t.Errorf("alarms %q, want %q", found, test.want)
			}
		})
	}
}

// An operator whose runs differ, but end in the same state, can be explored. The summary reports
// how many runs differ.
func TestMeasuresNondeterminism(t *testing.T) {
	runs := 0
	report, err := explore.Explore(t, eachConfigMap(func(ctx context.Context, c client.Client,
		cm *corev1.ConfigMap) (operator.Result, error) {
		first, second := "-cert", "-key"
		if runs++; runs%2 == 0 {
			first, second = second, first
		}
		return operator.Result{}, errors.Join(createSecret(ctx, c, cm, first, ""), createSecret(ctx, c, cm, second, ""))
	}), explore.Options{For: time.Hour, OneFault: true})
	require.NoError(t, err)
	if report.Unequal != 2 || !strings.Contains(report.Summary(),
		`2 of 3 further runs without faults took other steps; step`) {
		t.Errorf("%s", report.Summary())
	}
	for _, a := range report.Alarms {
		if a.Plan[0].Kind == explore.DeleteChild {
			continue // it does not watch Secrets
		}
		t.Errorf("%s\nfaults: %s", a, a.Plan)
	}
}

// Lists with the same elements in another order, as from a Go map, are named as such.
func TestMeasuresOtherOrder(t *testing.T) {
	runs := 0
	report, err := explore.Explore(t, eachConfigMap(func(ctx context.Context, c client.Client,
		cm *corev1.ConfigMap) (operator.Result, error) {
		env := []corev1.EnvVar{{Name: "A"}, {Name: "B"}}
		if runs++; runs%2 == 0 {
			slices.Reverse(env)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: cm.Name, Namespace: cm.Namespace},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a", Env: env}}}}
		return operator.Result{}, client.IgnoreAlreadyExists(c.Create(ctx, pod))
	}), explore.Options{For: time.Hour, OneFault: true, Plans: 1})
	if err != nil || !strings.Contains(report.Difference, "spec.containers[0].env: the same elements in another order") {
		t.Errorf("%v, %q, want the list", err, report.Difference)
	}
}
