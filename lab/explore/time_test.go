package explore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/lab/explore"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// Requests take time. An operator that acts only if the current time is after the planned time
// acts, because its timer fires later than planned, as in a cluster.
func TestMessagesTakeTime(t *testing.T) {
	s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		now := time.Now()
		planned, err := time.Parse(time.RFC3339, cm.Annotations["planned"])
		if err != nil {
			planned = now.Truncate(time.Second).Add(10 * time.Minute)
		}
		if now.After(planned) {
			return operator.Result{}, createSecret(ctx, c, cm, "-late", "a")
		}
		cm.Annotations = map[string]string{"planned": planned.Format(time.RFC3339)}
		return operator.Result{RequeueAfter: planned.Sub(now)}, c.Update(ctx, cm)
	})
	s.Inputs = append(s.Inputs, explore.Wait(time.Hour))
	if got, steps := replayed(t, s, "no faults"); got != "" ||
		!strings.Contains(steps, "request: create secrets default/web-late") {
		t.Errorf("%q\n%s", got, steps)
	}
	if repetition, err := explore.Repeat(t, s, "", 3); err != nil || repetition.Unequal > 0 {
		t.Errorf("%v, %v", repetition, err)
	}
}

// F10: what an operator has done because of the time, it need not do again for an object that is
// created again. Objects that remain of the former one are found.
func TestRecreatedAfterAWait(t *testing.T) {
	for name, test := range map[string]struct {
		keeps bool
		want  string
	}{
		"correct": {false, ""},
		"faulty":  {true, "secrets default/web-2: exists, and did not before"},
	} {
		s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
			if test.keeps && cm.Annotations["numbered"] == "" {
				// The bug: each ConfigMap gets one more Secret, which has no owner.
				err := error(nil)
				for n := 1; n == 1 || apierrors.IsAlreadyExists(err); n++ {
					err = c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace,
						Name: fmt.Sprintf("%s-%d", cm.Name, n)}})
				}
				cm.Annotations = map[string]string{"numbered": "yes"}
				return operator.Result{}, errors.Join(err, c.Update(ctx, cm))
			}
			if left := time.Until(cm.CreationTimestamp.Add(20 * time.Minute)); left > 0 {
				return operator.Result{RequeueAfter: left}, nil
			}
			return operator.Result{}, createSecret(ctx, c, cm, "-late", "a")
		})
		s.Inputs = append(s.Inputs, explore.Wait(time.Hour))
		got, steps := replayed(t, s, "recreate after configmaps default/web #2")
		if test.want == "" && got != "" || !strings.Contains(got, test.want) ||
			!strings.Contains(steps, "create secrets default/web-late") {
			t.Errorf("%s: %q, want %q\n%s", name, got, test.want, steps)
		}
	}
}

// If a request fails after many other failures, the operator may try again only after a long pause.
func TestLongBackoff(t *testing.T) {
	s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		var attempts int
		fmt.Sscan(cm.Annotations["attempts"], &attempts)
		if attempts == 20 {
			return operator.Result{}, nil
		}
		before := cm.DeepCopy()
		cm.Annotations = map[string]string{"attempts": fmt.Sprint(attempts + 1)}
		// The event of the write begins the next attempt at once. Without an event, it begins after
		// a pause that doubles with each failure.
		return operator.Result{}, errors.Join(c.Patch(ctx, cm, client.MergeFrom(before)), errors.New("not ready"))
	})
	for _, fault := range []string{"internal-error", "too-many-requests"} {
		plan := fault + " patch configmaps default/web #18"
		if got, steps := replayed(t, s, plan); got != "" {
			t.Errorf("false alarm of %s: %s\n%s", plan, got, steps)
		}
	}
}
