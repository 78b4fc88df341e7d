package explore_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// replayed returns the oracles and details of the alarms of a plan, and its steps.
func replayed(t *testing.T, s explore.Scenario, plan string) (alarms, steps string) {
	t.Helper()
	found, all := explore.ReplayPlan(t, s, plan)
	var texts []string
	for _, a := range found {
		texts = append(texts, a.Oracle+" "+a.Detail)
	}
	return strings.Join(texts, "\n"), strings.Join(all, "\n")
}

func ignoreExisting(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// createsKey is an operator that creates a Secret, and may ignore that it exists.
func createsKey(ignore bool) []operator.Part {
	reconcile := func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		if cm.Name != "web" {
			return operator.Result{}, nil
		}
		err := c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace,
			Name: cm.Name + "-key",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cm,
				corev1.SchemeGroupVersion.WithKind("ConfigMap"))}}})
		if ignore {
			err = ignoreExisting(err)
		}
		return operator.Result{}, err
	}
	return []operator.Part{operator.Name("each"), operator.For(func(d operator.Deps) *each {
		return &each{d, reconcile}
	})}
}

// O3: an error that a reconciler returns for ever after a fault is an alarm, although the objects
// are right; an error that ends is not.
func TestErrorThatPersists(t *testing.T) {
	const plan = "kill-after create secrets default/web-key #1"
	for name, test := range map[string]struct {
		ignore bool
		want   string
	}{
		"faulty":  {false, `O3 configmap default/web: secrets "web-key" already exists`},
		"correct": {true, ""},
	} {
		s := explore.Scenario{Operator: explore.Parts(createsKey(test.ignore)...),
			Inputs: []explore.Input{explore.Create(configMap("web"))}}
		if got, steps := replayed(t, s, plan); got != test.want {
			t.Errorf("%s: %q, want %q\n%s", name, got, test.want, steps)
		}
	}
}

// O3: an error that persists without any fault is an alarm, and does not prevent the exploration.
// The same error of copies is expected, and another one is not. An error that a later input ends,
// or that the scenario expects, is only part of the summary.
func TestErrorWithoutFaults(t *testing.T) {
	s := eachConfigMap(func(context.Context, client.Client, *corev1.ConfigMap) (operator.Result, error) {
		return operator.Result{}, errors.New("no route to host")
	})
	const copies = "batch after configmaps default/web #1"
	if got, steps := replayed(t, s, copies); got != "" {
		t.Errorf("false alarm: %s\n%s", got, steps)
	}
	single := eachConfigMap(func(_ context.Context, _ client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		if cm.Name != "web" {
			return operator.Result{}, errors.New("more than one")
		}
		return operator.Result{}, nil
	})
	if got, _ := replayed(t, single, copies); !strings.HasPrefix(got, "O3 configmap default/web-2: more than one") {
		t.Errorf("%q, want the errors of the copies", got)
	}
	report, err := explore.Explore(t, s, explore.Options{For: time.Hour, OneFault: true, Plans: 10})
	require.NoError(t, err)
	if len(report.Alarms) != 1 || report.Alarms[0].Oracle != "O3" || len(report.Alarms[0].Plan) > 0 ||
		!regexp.MustCompile(`(?m)^configmap default/web: no route to host \(\d+ times in \S+\)$`).MatchString(
			report.Alarms[0].Detail) || len(report.Failing) > 0 || report.Plans == 0 {
		t.Errorf("%v, %s; want the alarm, and other plans", report.Alarms, report.Summary())
	}
	const note = "without any fault, a reconcile fails again and again: configmap default/web: "
	ends := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		if cm.Name != "web" || cm.DeletionTimestamp != nil {
			return operator.Result{}, nil
		}
		return operator.Result{}, c.Get(ctx, client.Key{Namespace: "default", Name: "password"}, &corev1.Secret{})
	})
	ends.Inputs = append(ends.Inputs, explore.Create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "password"}}))
	s.Failing = []string{"configmap default/w*", "configmap"}
	for name, s := range map[string]explore.Scenario{"ends": ends, "expected": s} {
		report, err := explore.Explore(t, s, explore.Options{Check: true})
		if err != nil || len(report.Alarms) > 0 || !strings.Contains(report.Summary(), note) {
			t.Errorf("%s: %v, %v, %s; want no alarm and %q", name, err, report.Alarms, report.Summary(), note)
		}
	}
}

// F14: an operator must make up for the actions that were due while the clock jumped.
func TestClockJump(t *testing.T) {
	scenario := func(retries bool) explore.Scenario {
		return eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
			if left := time.Until(cm.CreationTimestamp.Add(20 * time.Minute)); left > 0 {
				return operator.Result{RequeueAfter: left}, nil
			}
			short, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			err := createSecret(short, c, cm, "-late", "a")
			if !retries && errors.Is(err, context.DeadlineExceeded) {
				err = nil // the bug
			}
			return operator.Result{}, err
		})
	}
	const plan = "clock-jump after time 1h #1"
	const want = "O4 secrets default/web-late: exists, and did not before the restart"
	if got, steps := replayed(t, scenario(false), plan); got != want {
		t.Errorf("%q, want %q\n%s", got, want, steps)
	}
	if got, steps := replayed(t, scenario(true), plan); got != "" {
		t.Errorf("false alarm: %s\n%s", got, steps)
	}
	_, err := explore.ParsePlan("clock-jump after time soon #1")
	assert.ErrorContains(t, err, `"soon" is not a positive duration`)
}

// An operator may end because it could not renew its Lease while the clock jumped. It starts again
// when its clock has jumped.
func TestEndsInClockJump(t *testing.T) {
	s := explore.Scenario{Inputs: []explore.Input{explore.Create(configMap("web"))},
		Operator: func(ctx context.Context, config *rest.Config) error {
			c, err := client.New(client.Config{REST: config})
			for err == nil {
				short, cancel := context.WithTimeout(ctx, time.Minute)
				err = c.Get(short, client.KeyOf(configMap("web")), &corev1.ConfigMap{})
				cancel()
				if err = client.IgnoreNotFound(err); err == nil {
					select {
					case <-time.After(time.Minute):
					case <-ctx.Done():
						return nil
					}
				}
			}
			return fmt.Errorf("lease lost: %w", err)
		}}
	const plan = "clock-jump after time 1h #1"
	alarms, steps := explore.ReplayPlan(t, s, plan)
	const ended = "the operator ended, because it got no responses while its clock jumped"
	if len(alarms) > 0 || !slices.Contains(steps, ended) {
		t.Errorf("%v, want no alarm, and the step %q\n%s", alarms, ended, strings.Join(steps, "\n"))
	}
}

// runsPods runs two Pods for each ConfigMap. It replaces those that were deleted and, if correct is
// true, those that have failed.
func runsPods(correct bool) explore.Scenario {
	s := eachConfigMap(nil)
	s.Operator = explore.Parts(operator.Name("each"), operator.For(func(d operator.Deps) *each {
		return &each{d, func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
			for _, name := range []string{"-a", "-b"} {
				pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
					ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name + name,
						OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cm,
							corev1.SchemeGroupVersion.WithKind("ConfigMap"))}}}
				err := c.Create(ctx, pod)
				if apierrors.IsAlreadyExists(err) {
					if err = c.Get(ctx, client.KeyOf(pod), pod); err == nil && correct &&
						pod.Status.Phase == corev1.PodFailed {
						err = c.Delete(ctx, pod)
					}
				}
				if client.IgnoreNotFound(err) != nil {
					return operator.Result{}, err
				}
			}
			return operator.Result{}, nil
		}}
	}, operator.Owns[corev1.Pod]()))
	s.Env = []testenv.Option{testenv.Workloads(), testenv.Nodes(controlplane.Simulated{})}
	return s
}

// F15, O7: the Pods that an operator manages must be healthy again after one has failed.
func TestHealthyPods(t *testing.T) {
	const plan = "fail-pod after pods default/web-b #1"
	got, steps := replayed(t, runsPods(false), plan)
	assert.Equalf(t, got, "O7 pods of ConfigMap web: 1 are healthy, and 2 were", "\n%s", steps)
	if got, steps := replayed(t, runsPods(true), plan); got != "" {
		t.Errorf("false alarm: %s\n%s", got, steps)
	}
}

// F15: the Pods of a lost Node are evicted. An operator that replaces them raises no alarm; an
// operator that does not watch them raises one.
func TestLostNode(t *testing.T) {
	require.Long(t, "explores for several seconds")
	s := runsPods(true)
	report, err := explore.Explore(t, s, explore.Options{For: time.Hour, OneFault: true, Plans: 1})
	if err != nil || report.Plans != 1 {
		t.Fatalf("%v, %v", report, err)
	}
	var node string
	env := testenv.New(t, s.Env...)
	env.Eventually(t, time.Minute, func() bool {
		var nodes corev1.NodeList
		if err := env.Client().List(t.Context(), &nodes); err != nil || len(nodes.Items) == 0 {
			return false
		}
		node = nodes.Items[0].Name
		return true
	})
	plan := "lose-node after nodes " + node + " #1"
	got, steps := replayed(t, s, plan)
	for _, want := range []string{"the node comes back", "event: deleted pods default/web-a",
		"request: create pods default/web-a"} {
		_, after, found := strings.Cut(steps, "FAULT "+plan)
		if got != "" || !found || !strings.Contains(after, want) {
			t.Errorf("alarms %q, steps without %q\n%s", got, want, steps)
		}
	}
	blind := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}},
			ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cm,
					corev1.SchemeGroupVersion.WithKind("ConfigMap"))}}}
		return operator.Result{}, ignoreExisting(c.Create(ctx, pod))
	})
	blind.Env = s.Env
	if got, steps := replayed(t, blind, plan); !strings.HasPrefix(got,
		"O4 pods default/web: exists, and did not before the restart") {
		t.Errorf("%q\n%s", got, steps)
	}
}

// F15: the Pods of a Node that does not respond are evicted, and end only when it responds again.
// An operator that replaces them raises no alarm.
func TestSilentNode(t *testing.T) {
	require.Long(t, "explores for several seconds")
	s := runsPods(true)
	node := ""
	s.Invariants = []explore.Invariant{{Name: "find the node", Kind: "Pod",
		Check: func(_ explore.View, c explore.Change) error {
			if name, _, _ := unstructured.NestedString(c.Object.Object, "spec", "nodeName"); name != "" {
				node = name
			}
			return nil
		}}}
	if replayed(t, s, "no faults"); node == "" {
		t.Fatal("the Pods have no node")
	}
	plan := "silence-node after nodes " + node + " #1"
	got, steps := replayed(t, s, plan)
	_, steps, _ = strings.Cut(steps, "FAULT "+plan)
	silent, after, answers := strings.Cut(steps, "the node answers again")
	if got != "" || !answers || !strings.Contains(silent, "event: modified pods default/web-a") ||
		strings.Contains(silent, "deleted pods") ||
		!strings.Contains(after, "event: deleted pods default/web-a") ||
		!strings.Contains(after, "request: create pods default/web-a") {
		t.Errorf("alarms %q\n%s\nthe node answers again\n%s", got, silent, after)
	}
}

// F15: exploration finds an operator that treats a claim that stays pending for long as a failure.
func TestPendingClaim(t *testing.T) {
	for name, patient := range map[string]bool{"faulty": false, "correct": true} {
		s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
			owner := []metav1.OwnerReference{*metav1.NewControllerRef(cm,
				corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name,
				OwnerReferences: owner}}
			claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
			claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name,
				OwnerReferences: owner}}
			pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "nginx"}}
			pod.Spec.Volumes = []corev1.Volume{{Name: "data",
				VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: cm.Name}}}}
			for _, obj := range []client.Object{claim, pod} {
				if err := c.Create(ctx, obj); err != nil && !apierrors.IsAlreadyExists(err) {
					return operator.Result{}, err
				}
			}
			if err := c.Get(ctx, client.KeyOf(claim), claim); err != nil || claim.Status.Phase == corev1.ClaimBound {
				return operator.Result{}, err
			}
			if !patient && time.Since(claim.CreationTimestamp.Time) > time.Minute {
				return operator.Result{}, createSecret(ctx, c, cm, "-failed", "a")
			}
			return operator.Result{RequeueAfter: 30 * time.Second}, nil
		})
		s.Env = []testenv.Option{testenv.Workloads(), testenv.Nodes(controlplane.Simulated{})}
		got, steps := replayed(t, s, "pending-claim provision persistentvolumeclaims default/web #1")
		if want := "O1 secrets default/web-failed: exists"; patient && got != "" ||
			!patient && !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q\n%s", name, got, want, steps)
		}
	}
}

// Runs end early in states that were explored before. This does not cause missed or false alarms.
func TestPruned(t *testing.T) {
	require.Long(t, "explores for several seconds")
	report, err := explore.Explore(t, twoSecretsScenario(true), explore.Options{For: time.Hour, Plans: 80,
		Kinds: []explore.Kind{explore.KillBefore, explore.KillAfter, explore.Lose, explore.Hold, explore.Freeze}})
	require.NoError(t, err)
	t.Log(report.Summary())
	if report.Pruned == 0 || len(report.Alarms) > 0 {
		t.Errorf("%d runs ended early, alarms %v; want some, and no alarm", report.Pruned, report.Alarms)
	}
}
