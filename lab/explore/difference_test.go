package explore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/explore"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// The text of a field does not decide about an alarm: an object whose message looks like a line of
// the report is not "left behind".
func TestMessageIsNotADecision(t *testing.T) {
	s := eachConfigMap(nil)
	s.Operator = explore.Parts(operator.Name("each"), operator.For(func(d operator.Deps) *each {
		return &each{d, func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
			if cm.Name != "web" {
				return operator.Result{}, nil
			}
			err := c.Get(ctx, client.Key{Namespace: cm.Namespace, Name: cm.Name + "-key"}, &corev1.Secret{})
			if !apierrors.IsNotFound(err) {
				return operator.Result{}, err
			}
			if err := createSecret(ctx, c, cm, "-key", "a"); err != nil {
				return operator.Result{}, err
			}
			summary := configMap("summary")
			if err := c.Get(ctx, client.KeyOf(summary), summary); err != nil {
				return operator.Result{}, err
			}
			summary.Data = map[string]string{"message": summary.Data["message"] + "; keys: there are more"}
			return operator.Result{}, c.Update(ctx, summary)
		}}
	}, operator.Owns[corev1.Secret]()))
	s.Prepare = func(ctx context.Context, c client.Client) error { return c.Create(ctx, configMap("summary")) }
	got, steps := replayed(t, s, "delete-child after secrets default/web-key #1")
	assert.Equalf(t, got, "", "\n%s", steps)
}

// A field is not another one whose name begins with its name: an operator that computes
// spec.sizeLimit from spec.size has reacted to a change of spec.size.
func TestFieldWithTheSamePrefix(t *testing.T) {
	s := boats(t, func(ctx context.Context, c client.Client, boat *unstructured.Unstructured) error {
		size, found, _ := unstructured.NestedInt64(boat.Object, "spec", "size")
		if !found {
			return nil
		}
		first := configMap("first")
		first.Data = map[string]string{"size": fmt.Sprint(size)}
		if err := ignoreExisting(c.Create(ctx, first)); err != nil {
			return err
		}
		if limit, _, _ := unstructured.NestedInt64(boat.Object, "spec", "sizeLimit"); limit == 2*size {
			return nil
		}
		if err := unstructured.SetNestedField(boat.Object, 2*size, "spec", "sizeLimit"); err != nil {
			return err
		}
		return c.Update(ctx, boat)
	})
	boat := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(3)}}}
	boat.SetAPIVersion("example.com/v1")
	boat.SetKind("Boat")
	boat.SetName("argo")
	s.Inputs = []explore.Input{explore.Create(boat)}
	for _, size := range []string{"0", "4"} {
		got, steps := replayed(t, s, "set-field after boats.example.com default/argo #1 spec.size="+size)
		if strings.Contains(got, "O6 ") || !strings.Contains(steps, "the field is set back") {
			t.Errorf("size %s: %s\n%s", size, got, steps)
		}
	}
}

// Differences name the number of objects, or the field with both values as a whole.
func TestDifferences(t *testing.T) {
	long := strings.Repeat("a", 300)
	var states []explore.State
	for _, change := range []func(*testing.T, *testenv.Env){
		func(t *testing.T, env *testenv.Env) {
			web := configMap("web")
			web.Data = map[string]string{"a.b": "1", "text": long + "x" + long, "gone": "yes"}
			env.Create(t, web)
			env.Create(t, configMap("only-here"))
			env.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "key-"}})
			env.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "key-"}})
		},
		func(t *testing.T, env *testenv.Env) {
			web := configMap("web")
			web.Data = map[string]string{"a.b": "2", "text": long + "y" + long}
			env.Create(t, web)
			env.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "key-"}})
			before := configMap("before")
			require.NoError(t, env.Client().Delete(t.Context(), before))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			env := testenv.New(t)
			env.Create(t, configMap("before"))
			env.Settle(t)
			states = append(states, explore.StateAfter(t, env.Plane().Store(), func() {
				change(t, env)
				env.Settle(t)
			}))
		})
	}
	var got []string
	for _, d := range states[1].Diff(states[0]) {
		got = append(got, d.String())
	}
	context := strings.Repeat("a", 24)
	want := []string{
		"configmaps default/before: is missing",
		"configmaps default/only-here: is missing",
		`configmaps default/web.data.a.b: "2", and "1" without faults`,
		`configmaps default/web.data.gone: not set, and "yes" without faults`,
		"configmaps default/web.data.text: …" + context + "y" + context + "…, and …" + context + "x" + context +
			"… without faults",
		"secrets default/key-*: there are 1, and 2 without faults",
	}
	assert.Equal(t, strings.Join(got, "\n"), strings.Join(want, "\n"))
	if back := states[0].Diff(states[1]); len(back) != len(want) ||
		back[0].String() != "configmaps default/before: exists, and does not without faults" {
		t.Errorf("in the other direction: %v", back)
	}
}
