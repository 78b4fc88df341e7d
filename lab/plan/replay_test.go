package plan_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/store"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/history"
	"kelson.dev/lab/replay"
	_ "kelson.dev/lab/testenv"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// apps gives each ConfigMap that has the label app a Deployment. When that is ready, it writes the
// number of replicas to the ConfigMap.
type replayApps struct {
	operator.Client
	image string
	limit int32 // of replicas
}

func (r *replayApps) Reconcile(ctx context.Context, app *corev1.ConfigMap) (operator.Result, error) {
	if app.Labels["app"] == "" {
		return operator.Result{}, nil
	}
	labels := map[string]string{"app": app.Name}
	replicas := min(int32(len(app.Data["replicas"])), r.limit)
	deployment, err := operator.Apply(ctx, r.Client, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: app.Name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: r.image}}},
			},
		},
	})
	ready := fmt.Sprint(deployment.Status.ReadyReplicas)
	if err != nil || app.Annotations["ready"] == ready {
		return operator.Result{}, err
	}
	app = app.DeepCopy()
	metav1.SetMetaDataAnnotation(&app.ObjectMeta, "ready", ready)
	return operator.Result{}, r.Update(ctx, app)
}

func replayedOperator(image string, limit int32) func(context.Context, *rest.Config) error {
	return func(ctx context.Context, config *rest.Config) error {
		return operator.Run(ctx, operator.Config{REST: config, Log: slog.New(slog.DiscardHandler)},
			operator.Name("apps"),
			operator.For(func(c operator.Client) *replayApps {
				return &replayApps{c, image, limit}
			}, operator.Owns[appsv1.Deployment]()))
	}
}

// incident records a history in which a user creates an app, scales it after an hour, and deletes
// it after another hour.
func incident(t *testing.T) *history.History {
	return record(t, replayedOperator("nginx:1", 10), func(ctx context.Context, c client.Client) {
		app := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web",
			Labels: map[string]string{"app": "yes"}}, Data: map[string]string{"replicas": "x"}}
		must(t, c.Create(ctx, app))
		time.Sleep(time.Hour)
		must(t, c.Get(ctx, client.KeyOf(app), app))
		app.Data["replicas"] = "xxx"
		must(t, c.Update(ctx, app))
		time.Sleep(time.Hour)
		must(t, c.Delete(ctx, app))
		time.Sleep(time.Hour)
	})
}

// record records what a user does while an operator runs.
func record(t *testing.T, operator func(context.Context, *rest.Config) error,
	user func(context.Context, client.Client)) *history.History {
	dir := filepath.Join(t.TempDir(), history.Folder)
	synctest.Test(t, func(t *testing.T) {
		retainer := history.NewRetainer(dir, history.RetainerConfig{})
		s, err := store.Open(store.Config{Backend: retainer.Backend(nil)})
		must(t, err)
		plane, err := controlplane.Start(t.Context(),
			controlplane.Config{Store: s, Controllers: controlplane.AllControllers{},
				Node: controlplane.Simulated{Lease: controlplane.NodeLease}})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- operator(ctx, plane.RESTConfig()) }()
		c, err := client.New(client.Config{REST: plane.RESTConfig(), FieldOwner: "kubectl-edit"})
		must(t, err)
		time.Sleep(time.Minute)
		user(ctx, c)
		cancel()
		<-ended
		plane.Stop()
		must(t, s.Close())
	})
	h, err := history.Open(dir)
	must(t, err)
	t.Cleanup(func() { h.Close() })
	return h
}

var must = require.NoError

func replayOf(t *testing.T, cfg replay.Config) (result *replay.Result, err error) {
	synctest.Test(t, func(t *testing.T) { result, err = replay.Run(t.Context(), cfg) })
	return result, err
}

func TestReplay(t *testing.T) {
	h := incident(t)
	managers, err := replay.Managers(h)
	must(t, err)
	if !slices.Equal(managers, []string{"apps"}) {
		t.Fatalf("managers of the operator: %v", managers)
	}

	t.Run("same operator", func(t *testing.T) {
		result, err := replayOf(t, replay.Config{History: h, Managers: managers, Operator: replayedOperator("nginx:1", 10)})
		must(t, err)
		if len(result.Divergences) > 0 || result.Inputs < 10 || result.Moments < 3 || result.Objects != 2 {
			t.Errorf("%+v", result)
		}
	})
	t.Run("another image", func(t *testing.T) {
		result, err := replayOf(t, replay.Config{History: h, Managers: managers, Operator: replayedOperator("nginx:2", 10)})
		must(t, err)
		if len(result.Divergences) != 1 || result.Divergences[0].Resource != "deployments.apps" ||
			!slices.Contains(result.Divergences[0].Changes,
				history.Change{Path: ".spec.template.spec.containers[app].image", From: `"nginx:1"`, To: `"nginx:2"`}) {
			t.Errorf("%+v", result)
		}
		// the Deployment was deleted with its owner
		if result.Divergences[0].Until == nil {
			t.Errorf("still diverges at the end: %+v", result.Divergences[0])
		}
	})
	t.Run("a difference after an hour", func(t *testing.T) {
		result, err := replayOf(t, replay.Config{History: h, Managers: managers, Operator: replayedOperator("nginx:1", 2)})
		must(t, err)
		if len(result.Divergences) == 0 {
			t.Fatalf("no divergence: %+v", result)
		}
		d := result.Divergences[0]
		if after := d.Since.Sub(result.From); after < time.Hour || after > time.Hour+2*time.Minute ||
			!slices.Contains(d.Changes, history.Change{Path: ".spec.replicas", From: "3", To: "2"}) {
			t.Errorf("after %v: %+v", after, d)
		}
	})
	t.Run("an operator that does nothing", func(t *testing.T) {
		result, err := replayOf(t, replay.Config{History: h, Managers: managers,
			Operator: func(ctx context.Context, _ *rest.Config) error {
				<-ctx.Done()
				return nil
			}})
		must(t, err)
		if !slices.ContainsFunc(result.Divergences, func(d replay.Divergence) bool {
			return d.Resource == "deployments.apps" && d.Only == "recorded"
		}) || len(result.Notes) == 0 {
			t.Errorf("%+v", result)
		}
	})
	t.Run("part of the history", func(t *testing.T) {
		_, newest := h.Span()
		result, err := replayOf(t, replay.Config{History: h, Managers: managers, Operator: replayedOperator("nginx:1", 10),
			From: newest.Add(-150 * time.Minute)})
		must(t, err)
		if len(result.Divergences) > 0 || result.Inputs == 0 {
			t.Errorf("%+v", result)
		}
	})
	t.Run("an operator that ends", func(t *testing.T) {
		_, err := replayOf(t, replay.Config{History: h, Managers: managers,
			Operator: func(context.Context, *rest.Config) error { return errors.New("no configuration") }})
		if err == nil || err.Error() != "the operator ended: no configuration" {
			t.Error(err)
		}
		_, err = replayOf(t, replay.Config{History: h, Managers: managers,
			Operator: func(context.Context, *rest.Config) error { panic("no configuration") }})
		if err == nil || err.Error() != "the operator ended: panic: no configuration" {
			t.Error(err)
		}
	})
	t.Run("bounds", func(t *testing.T) {
		oldest, newest := h.Span()
		for want, cfg := range map[string]replay.Config{
			"the history begins later":      {From: oldest.Add(-time.Hour)},
			"there is nothing to replay":    {From: newest.Add(time.Hour)},
			"the field managers of the ope": {Managers: []string{}},
		} {
			cfg.History, cfg.Operator = h, replayedOperator("", 1)
			if cfg.Managers == nil {
				cfg.Managers = managers
			}
			_, err := replayOf(t, cfg)
			assert.ErrorContains(t, err, want)
		}
	})
}

// The operator starts when the control plane serves the definition that was written before its
// first write, so that it does not wait in virtual time for its kind.
func TestOperatorStartsAfterDefinitions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), history.Folder)
	synctest.Test(t, func(t *testing.T) {
		retainer := history.NewRetainer(dir, history.RetainerConfig{})
		s, err := store.Open(store.Config{Backend: retainer.Backend(nil)})
		must(t, err)
		plane, err := controlplane.Start(t.Context(),
			controlplane.Config{Store: s, Controllers: controlplane.NoControllers{}})
		must(t, err)
		write := func(manager string, obj client.Object) {
			time.Sleep(time.Minute)
			c, err := client.New(client.Config{REST: plane.RESTConfig(), FieldOwner: manager})
			must(t, err)
			must(t, c.Create(t.Context(), obj))
		}
		write("kubectl-create", object(t, `{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "ships.example.com"},
			"spec": {"group": "example.com", "names": {"plural": "ships", "kind": "Ship"}, "scope": "Namespaced",
				"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}
		}`))
		write("apps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Data: map[string]string{"color": "red"}})
		plane.Stop()
		must(t, s.Close())
	})
	h, err := history.Open(dir)
	must(t, err)
	defer h.Close()
	status := ""
	operator := func(ctx context.Context, config *rest.Config) error {
		c, err := rest.HTTPClientFor(config)
		if err != nil {
			return err
		}
		resp, err := c.Get(config.Host + "/apis/example.com/v1/ships")
		if err != nil {
			return err
		}
		status = resp.Status
		<-ctx.Done()
		return resp.Body.Close()
	}
	_, err = replayOf(t, replay.Config{History: h, Managers: []string{"apps"}, Operator: operator})
	must(t, err)
	assert.Equalf(t, status, "200 OK", "the operator's first request")
}

// closing is an operator with a finalizer. It also gives each app a Secret, which has no
// dependents.
type closing struct{ replayApps }

func (r *closing) Reconcile(ctx context.Context, app *corev1.ConfigMap) (operator.Result, error) {
	if app.Labels["app"] != "" {
		if _, err := operator.Apply(ctx, r.Client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: app.Name}}); err != nil {
			return operator.Result{}, err
		}
	}
	return r.replayApps.Reconcile(ctx, app)
}

func (*closing) Finalize(context.Context, *corev1.ConfigMap) (operator.Result, error) {
	return operator.Result{}, nil
}

// In a foreground deletion, the garbage collector deletes what the operator created while the owner
// still exists, and then the owner. If the dependents are orphaned, it removes their owner
// references.
func TestGarbageCollection(t *testing.T) {
	run := func(ctx context.Context, config *rest.Config) error {
		return operator.Run(ctx, operator.Config{REST: config, Log: slog.New(slog.DiscardHandler)},
			operator.Name("apps"),
			operator.For(func(c operator.Client) *closing {
				return &closing{replayApps{c, "nginx:1", 10}}
			}, operator.Owns[appsv1.Deployment](), operator.Owns[corev1.Secret]()))
	}
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground,
		metav1.DeletePropagationOrphan} {
		h := record(t, run, func(ctx context.Context, c client.Client) {
			app := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web",
				Labels: map[string]string{"app": "yes"}}, Data: map[string]string{"replicas": "x"}}
			must(t, c.Create(ctx, app))
			time.Sleep(time.Minute)
			must(t, c.Delete(ctx, app, client.DeleteOptions{PropagationPolicy: &policy}))
			time.Sleep(time.Minute)
		})
		result, err := replayOf(t, replay.Config{History: h, Managers: []string{"apps"}, Operator: run})
		must(t, err)
		if len(result.Divergences) > 0 || result.Objects < 3 {
			t.Errorf("%s: %+v", policy, result)
		}
	}
}

func object(t *testing.T, text string) client.Object {
	obj := &unstructured.Unstructured{}
	must(t, obj.UnmarshalJSON([]byte(text)))
	return obj
}
