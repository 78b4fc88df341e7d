package explore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// runs returns how often the tests repeat a plan: 1,000 times in "make explore-determinism".
func runs(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv(explore.RepeatVariable))
	if err != nil {
		return 3
	}
	t.Setenv(explore.RepeatVariable, "")
	return n
}

// deploys is an operator that creates a Deployment of three Pods for each ConfigMap and, if exposed
// is true, a Service. Kubernetes' own controllers and simulated nodes do the rest.
func deploys(exposed bool) explore.Scenario {
	s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		replicas, labels := int32(3), map[string]string{"app": cm.Name}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cm,
				corev1.SchemeGroupVersion.WithKind("ConfigMap"))}},
			Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}}}}}
		owned := []client.Object{d}
		if exposed {
			owned = append(owned, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name,
				OwnerReferences: d.OwnerReferences},
				Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Port: 80}}}})
		}
		for _, obj := range owned {
			if err := c.Create(ctx, obj); err != nil && !apierrors.IsAlreadyExists(err) {
				return operator.Result{}, err
			}
		}
		return operator.Result{}, nil
	})
	s.Env = []testenv.Option{testenv.Workloads(), testenv.Nodes(controlplane.Simulated{})}
	return s
}

// Equal plans give equal histories, byte for byte.
func TestEqualPlansGiveEqualRuns(t *testing.T) {
	require.Long(t, "runs each plan many times")
	n := runs(t)
	for name, test := range map[string]struct {
		scenario explore.Scenario
		plans    []string
	}{
		"secrets": {twoSecretsScenario(true), []string{
			"no faults",
			"kill-after create secrets default/web-key #1",
			"lose-response create secrets default/web-cert #1; freeze added secrets default/web-key #1",
			"order 7",
			"priorities 7",
		}},
		"pods":     {deploys(false), []string{"", "no faults"}},
		"services": {deploys(true), []string{"", "no faults"}},
	} {
		for _, plan := range test.plans {
			repetition, err := explore.Repeat(t, test.scenario, plan, n)
			require.NoError(t, err)
			if t.Logf("%s: %s", name, repetition); repetition.Unequal > 0 {
				t.Fail()
			}
		}
	}
}

// Runs leave no control planes in memory, although Kubernetes' scheduler, which runs in this
// scenario, passes a channel to signal.Notify.
func TestRunsLeaveNothing(t *testing.T) {
	require.Long(t, "runs a plan many times")
	live := func() int {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	var sizes []int // of the heap, while the explorer runs
	s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		sizes = append(sizes, live())
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}}}
		if err := c.Create(ctx, pod); err != nil && !apierrors.IsAlreadyExists(err) {
			return operator.Result{}, err
		}
		return operator.Result{}, nil
	})
	s.Env = []testenv.Option{testenv.Nodes(controlplane.Simulated{})}
	repeat := func(runs int) {
		_, err := explore.Repeat(t, s, "no faults", runs)
		require.NoError(t, err)
	}
	repeat(2) // fills caches
	before := live()
	const runs = 10
	repeat(runs)
	// A run whose control plane stays needs half a megabyte.
	if each := (live() - before) / runs; each > 100<<10 {
		t.Errorf("each run leaves %d KiB", each>>10)
	}
	// The objects that the runs share stay until the explorer ends.
	sizes = sizes[len(sizes)-len(sizes)/2:]
	if each := (sizes[len(sizes)-1] - sizes[0]) / (runs / 2); each > 100<<10 {
		t.Errorf("each run leaves %d KiB while the explorer runs", each>>10)
	}
}

// Repeat finds histories that differ.
func TestRepeatFindsDifferences(t *testing.T) {
	repetition, err := explore.Repeat(t, eachConfigMap(func(ctx context.Context, c client.Client,
		cm *corev1.ConfigMap) (operator.Result, error) {
		return operator.Result{}, createSecret(ctx, c, cm, "-key", fmt.Sprint(rand.Uint64()))
	}), "no faults", 3)
	if err != nil || repetition.Unequal != 2 ||
		!strings.Contains(repetition.String(),
			"1 of 3 runs have the same history, byte for byte: no faults\nthe first difference: the content of a version, ") || !strings.Contains(repetition.Difference, "ADDED secrets/default/web-key") {
		t.Errorf("%v\n%v", repetition, err)
	}
}
