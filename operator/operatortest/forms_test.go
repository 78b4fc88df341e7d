package operatortest_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/operatortest"
)

// On a server with protobuf and streaming lists, informers in all forms have the same objects as
// direct reads of the client.
func TestForms(t *testing.T) {
	needKelson(t)
	env := operatortest.New(t)
	direct, err := client.New(client.Config{REST: env.RESTConfig()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for n := range 30 {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("pod-", n),
			Labels: map[string]string{"n": fmt.Sprint(n % 3)}}}
		p.Spec.Containers = []corev1.Container{{Name: "main", Image: "image",
			Args: []string{fmt.Sprint("--shard=", n)}}}
		p.Spec.NodeSelector = map[string]string{"nowhere": "true"} // it must not be modified
		require.NoError(t, direct.Create(ctx, p))
	}
	want, err := client.List[corev1.Pod](ctx, direct)
	if err != nil || len(want) != 30 {
		t.Fatalf("%d pods: %v", len(want), err)
	}
	for _, form := range []informer.Form{informer.Full, informer.Compact, informer.Metadata} {
		t.Run(form.String(), func(t *testing.T) {
			set, err := informer.New(informer.Config{Client: direct, Form: form})
			require.NoError(t, err)
			go set.Run(ctx)
			c := set.Client()
			for _, p := range want {
				got, err := client.Get[corev1.Pod](ctx, c, client.KeyOf(p))
				require.NoError(t, err)
				if got.Name != p.Name || got.UID != p.UID || !reflect.DeepEqual(got.Spec, p.Spec) ||
					!reflect.DeepEqual(got.Labels, p.Labels) {
					t.Errorf("got %+v\nwant %+v", got, p)
				}
			}
			third, err := client.List[corev1.Pod](ctx, c, client.MatchingLabels{"n": "1"})
			if err != nil || len(third) != 10 {
				t.Errorf("%d pods have the label: %v", len(third), err)
			}
			name := "written-" + form.String()
			made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
				Data: map[string]string{"a": "b"}}
			for range 2 { // the second apply is not sent, and has the same result
				require.NoError(t, c.Apply(ctx, made.DeepCopy()))
				read, err := client.Get[corev1.ConfigMap](ctx, c, client.KeyOf(made))
				if err != nil || read.Data["a"] != "b" {
					t.Errorf("own write: %v %+v", err, read)
				}
			}
			assert.NoError(t, c.Delete(ctx, made))
			if _, err := client.Get[corev1.ConfigMap](ctx, c, client.KeyOf(made)); !apierrors.IsNotFound(err) {
				t.Errorf("own deletion: %v", err)
			}
			for _, s := range set.Statuses() {
				if !s.Synced || s.Err != nil {
					t.Error(s)
				}
			}
		})
	}
}

// The scale subresource, read, updated and patched.
func TestScale(t *testing.T) {
	needKelson(t)
	env := operatortest.New(t)
	c, err := client.New(client.Config{REST: env.RESTConfig()})
	require.NoError(t, err)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	d.Spec.Replicas = new(int32)
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}
	require.NoError(t, c.Create(t.Context(), d))
	scale := &autoscalingv1.Scale{}
	if err := c.Subresource("scale").Get(t.Context(), d, scale); err != nil || scale.Spec.Replicas != 0 ||
		scale.Name != "web" {
		t.Fatalf("%v %+v", err, scale)
	}
	scale.Spec.Replicas = 3
	if err := c.Subresource("scale").Update(t.Context(), d, scale); err != nil || scale.Spec.Replicas != 3 {
		t.Fatalf("%v %+v", err, scale)
	}
	got, err := client.Get[appsv1.Deployment](t.Context(), c, client.KeyOf(d))
	if err != nil || *got.Spec.Replicas != 3 {
		t.Errorf("%v %+v", err, got)
	}
}
