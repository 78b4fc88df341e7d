package explore_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/lab/explore"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// F1: an operator that ignores objects older than its process misses those that users create while
// it is down. One that does not ignore them raises no alarm.
func TestDown(t *testing.T) {
	for name, ignores := range map[string]bool{"faulty": true, "correct": false} {
		t.Run(name, func(t *testing.T) {
			s := eachConfigMap(nil)
			s.Operator = explore.Parts(operator.Name("each"), operator.For(func(d operator.Deps) *each {
				start := time.Now().Truncate(time.Second) // as precise as creation times
				return &each{d, func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result,
					error) {
					if ignores && cm.CreationTimestamp.Time.Before(start) {
						return operator.Result{}, nil
					}
					return operator.Result{}, createSecret(ctx, c, cm, "-key", "a")
				}}
			}, operator.Owns[corev1.Secret]()))
			alarms := alarmsOf(t, s, explore.Down, explore.KillBefore, explore.KillAfter, explore.Recreate)
			if _, found := alarms["O1 down during input #1"]; found != ignores {
				t.Errorf("%v, want an alarm: %v", alarms, ignores)
			}
			if !ignores && len(alarms) > 0 {
				t.Errorf("false alarms: %v", alarms)
			}
			if repetition, err := explore.Repeat(t, s, "down during input #2", 3); err != nil ||
				repetition.Unequal > 0 {
				t.Errorf("%v, %v", repetition, err)
			}
		})
	}
}

// An input that waits for the operator ends, although the operator is down.
func TestDownWhileAUserWaits(t *testing.T) {
	s := eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		return operator.Result{}, createSecret(ctx, c, cm, "-key", "a")
	})
	s.Inputs = []explore.Input{explore.Do("create and wait", func(ctx context.Context, c client.Client) error {
		if err := c.Create(ctx, configMap("web")); err != nil {
			return err
		}
		for {
			err := c.Get(ctx, client.Key{Namespace: "default", Name: "web-key"}, &corev1.Secret{})
			if client.IgnoreNotFound(err) != nil || err == nil {
				return err
			}
			time.Sleep(time.Second)
		}
	})}
	got, steps := replayed(t, s, "down during input #1")
	assert.Equalf(t, got, "", "\n%s", steps)
}
