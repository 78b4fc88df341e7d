package main

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/lab/testenv"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/trace"
)

// mirror applies a Deployment for each ConfigMap with the label app, and writes the number of ready
// replicas to the ConfigMap.
type mirror struct{ operator.Deps }

func (r *mirror) Reconcile(ctx context.Context, cm *corev1.ConfigMap) (operator.Result, error) {
	if cm.Labels["app"] == "" {
		return operator.Result{}, nil
	}
	labels := map[string]string{"app": cm.Name}
	deployment, err := operator.Apply(ctx, r.Client, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "app", Image: "app:1"}}}}},
	})
	if err != nil {
		return operator.Result{}, err
	}
	_, err = operator.CreateOrUpdate(ctx, r.Client, cm, func() error {
		cm.Data = map[string]string{"ready": strconv.Itoa(int(deployment.Status.ReadyReplicas))}
		return nil
	})
	return operator.Result{}, err
}

// An operator that mirrors the status of a Deployment whose pods crash reacts to another writer. It
// causes nothing itself, so this is not a hot loop.
func TestMirroredStatusIsNoHotLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		reconciles, applies, changes := 0, 0, 0
		var wrong []string
		env := testenv.New(t, testenv.Run(func(ctx context.Context, config *rest.Config) error {
			sink := trace.Func(func(r trace.Record) {
				mu.Lock()
				defer mu.Unlock()
				reconciles++
				if r.Loop != nil {
					wrong = append(wrong, r.Loop.String())
				}
				for _, w := range r.Writes {
					if w.Kind == "Deployment" {
						applies++
						if w.Changed {
							changes++
						}
					}
				}
			})
			return operator.Run(ctx, operator.Config{REST: config, Trace: sink}, operator.Name("mirror"),
				operator.For(func(d operator.Deps) *mirror { return &mirror{d} }, operator.Owns[appsv1.Deployment]()))
		}))
		env.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web",
			Labels: map[string]string{"app": "web"}}})
		env.Settle(t)
		// The pods crash and start again, as the Deployment controller reports it.
		workloads, err := client.New(client.Config{REST: env.RESTConfig(), FieldOwner: "kelson-workloads"})
		require.NoError(t, err)
		time.Sleep(3 * time.Second) // virtual: the times of managedFields are in seconds
		for i := range 40 {
			deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
			env.Get(t, deployment)
			deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: deployment.Generation, Replicas: 2,
				ReadyReplicas: int32(i % 3 % 2)}
			err = workloads.Subresource("status").Update(t.Context(), deployment, deployment)
			require.NoError(t, err)
			time.Sleep(700 * time.Millisecond) // virtual
			env.Settle(t)
		}
		mu.Lock()
		defer mu.Unlock()
		if reconciles < 20 || applies < 20 {
			t.Errorf("only %d reconciles and %d writes of the Deployment", reconciles, applies)
		}
		// The first apply creates the Deployment, and the second one makes the owner of its fields
		// an applier: see creation.go of package client.
		assert.Equalf(t, changes, 2, "applies of the same Deployment are recorded as changes")
		for _, text := range wrong {
			t.Error(text)
		}
	})
}
