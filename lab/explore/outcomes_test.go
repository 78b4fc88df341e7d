package explore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/explore"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// unlikeSecrets creates two Secrets for each ConfigMap, and has the bug of twoSecrets unless
// correct is true. The Secrets differ between equal runs.
func unlikeSecrets(correct bool, first func(cm *corev1.ConfigMap) *corev1.Secret) explore.Scenario {
	do := func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		if cm.Name != "web" {
			return operator.Result{}, nil
		}
		var all corev1.SecretList
		if err := c.List(ctx, &all, client.InNamespace(cm.Namespace), client.MatchingLabels{"app": cm.Name},
			client.Live); err != nil {
			return operator.Result{}, err
		}
		if len(all.Items) > 0 && !correct {
			return operator.Result{}, nil // the bug
		}
		if len(all.Items) == 0 {
			secret := first(cm)
			secret.Labels = map[string]string{"app": cm.Name}
			if err := ignoreExisting(c.Create(ctx, secret)); err != nil {
				return operator.Result{}, err
			}
		}
		return operator.Result{}, createSecret(ctx, c, cm, "-cert", "b")
	}
	return explore.Scenario{
		Operator: explore.Parts(operator.Name("each"), operator.For(func(d operator.Deps) *each {
			return &each{d, do}
		}, operator.Owns[corev1.Secret]())),
		Inputs: []explore.Input{explore.Create(configMap("web"))},
	}
}

// An operator whose runs without faults end differently can be explored: what differs between them
// is not compared, and the summary shows all of it.
func TestOperatorsThatVary(t *testing.T) {
	key := func(cm *corev1.ConfigMap, name string, data map[string][]byte) *corev1.Secret {
		secret := ownedBy(cm, &corev1.Secret{Data: data})
		secret.Name = name
		return secret
	}
	races := 0
	for name, test := range map[string]struct {
		first func(cm *corev1.ConfigMap) *corev1.Secret
		want  string // in the summary
	}{
		"a random value": {func(cm *corev1.ConfigMap) *corev1.Secret {
			return key(cm, "web-key", map[string][]byte{"token": fmt.Append(nil, rand.Uint64()), "user": []byte("ann")})
		}, "secrets default/web-key.data.token"},
		"a random name": {func(cm *corev1.ConfigMap) *corev1.Secret {
			return key(cm, fmt.Sprintf("web-%d", rand.Uint64()), nil)
		}, "secrets default: which objects exist"},
		"a race": {func(cm *corev1.ConfigMap) *corev1.Secret {
			races++
			return key(cm, []string{"web-a", "web-b"}[races%2], nil)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, correct := range []bool{false, true} {
				// Kills and errors show the bug. For the correct operator, all kinds of faults are
				// tried once.
				options := explore.Options{For: time.Hour, OneFault: true,
					Kinds: []explore.Kind{explore.KillBefore, explore.KillAfter, explore.Lose, explore.Internal,
						explore.TwoLeaders}}
				if correct && name == "a random value" && !testing.Short() {
					options.Kinds = nil
				}
				report, err := explore.Explore(t, unlikeSecrets(correct, test.first), options)
				require.NoError(t, err)
				assert.Containsf(t, report.Summary(), test.want, "correct %v", correct)
				found := slices.ContainsFunc(report.Alarms, func(a explore.Alarm) bool {
					return a.Oracle == "O1" && strings.Contains(a.Detail, "secrets default/web-cert: is missing")
				})
				// A former leader creates a Secret of another name, which the server cannot refuse.
				others := slices.DeleteFunc(report.Alarms, func(a explore.Alarm) bool {
					return a.Plan[0].Kind == explore.TwoLeaders
				})
				if found == correct || correct && len(others) > 0 {
					t.Errorf("correct %v: alarms %v, plans %v", correct, others, plansOf(others))
				}
			}
		})
	}
}

func plansOf(alarms []explore.Alarm) (plans []string) {
	for _, a := range alarms {
		plans = append(plans, a.Plan.String())
	}
	return plans
}

// An object that the operator leaves behind without any fault is one alarm. Faults after which it
// does not remain raise none.
func TestLeakWithoutFaults(t *testing.T) {
	scenario := func(retained ...string) explore.Scenario {
		s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
			if cm.Name != "web" {
				return operator.Result{}, nil
			}
			log := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: "log"}}
			// The operator leaves the object behind unless the first attempt to create the key
			// fails.
			err := c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: "web-key",
				OwnerReferences: ownedBy(cm, &corev1.Secret{}).OwnerReferences}})
			if apierrors.IsInternalError(err) {
				log.OwnerReferences = ownedBy(cm, &corev1.Secret{}).OwnerReferences
				return operator.Result{}, errors.Join(err, c.Create(ctx, log))
			}
			return operator.Result{}, errors.Join(ignoreExisting(err), ignoreExisting(c.Create(ctx, log)))
		})
		s.Ignore = []string{"secrets metadata.ownerReferences"}
		s.Retained = retained
		return s
	}
	report, err := explore.Explore(t, scenario(), explore.Options{For: time.Hour, OneFault: true,
		Kinds: []explore.Kind{explore.KillBefore, explore.KillAfter, explore.Internal, explore.Hold, explore.Down}})
	require.NoError(t, err)
	var leaks []explore.Alarm
	for _, a := range report.Alarms {
		if a.Oracle == "O9" {
			leaks = append(leaks, a)
		}
	}
	if len(leaks) != 1 || len(leaks[0].Plan) > 0 ||
		!strings.Contains(leaks[0].Detail, "secrets default/log: exists after the inputs were deleted, and has no owner") {
		t.Errorf("alarms %v, want one without faults", report.Alarms)
	}
	for _, plan := range []string{"internal-error create secrets default/web-key #1"} {
		if got, steps := replayed(t, scenario(), plan); strings.Contains(got, "O9") {
			t.Errorf("%s: %s\n%s", plan, got, steps)
		}
	}
	if got, _ := replayed(t, scenario(), "no faults"); !strings.HasPrefix(got, "O9 secrets default/log: exists") {
		t.Errorf("a replay without faults: %q", got)
	}
	for _, pattern := range []string{"secrets", "secrets default/l*", "secrets default/log"} {
		got, _ := replayed(t, scenario(pattern), "no faults")
		assert.Equalf(t, got, "", "retained %q", pattern)
	}
}
