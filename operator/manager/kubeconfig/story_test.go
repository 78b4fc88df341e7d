package kubeconfig_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/manager"
	"kelson.dev/operator/manager/kubeconfig"
	"kelson.dev/operator/operatortest"
)

// On real API servers, with real kubeconfigs: a cluster is engaged and disengaged with its Secret.
func TestFleetStory(t *testing.T) {
	if os.Getenv("KELSON") == "" {
		t.Skip("SKIPPED: needs a real API server: set KELSON to a kelson binary")
	}
	hub, east := operatortest.New(t), operatortest.New(t)
	hub.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}})
	hub.Create(t, configMap("at-home"))
	east.Create(t, configMap("abroad"))
	v := visitor{new(sync.Mutex), map[string]bool{}}
	ctx, cancel := context.WithCancel(t.Context())
	ended, managers := make(chan error, 1), make(chan *manager.Manager, 1)
	go func() {
		ended <- operator.Run(ctx, operator.Config{REST: hub.RESTConfig(),
			Log: slog.New(slog.NewTextHandler(t.Output(), nil))}, operator.Name("test"),
			operator.For(func(operator.Client) visitor { return v }, operator.Filter(operator.Predicate(labelled))),
			operator.Provider(func(deps operator.Deps) manager.Provider {
				managers <- deps.Manager
				return kubeconfig.FromSecrets(kubeconfig.Config{Namespace: "fleet"})
			}))
	}()
	expect := func(want string) {
		t.Helper()
		var got []string
		hub.Eventually(t, time.Minute, func() bool {
			got = append(got, v.visits()...)
			return slices.Contains(got, want)
		})
		if len(got) != 1 {
			t.Errorf("got %q, want only %q", got, want)
		}
	}
	expect(":at-home")

	file, err := os.ReadFile(east.Kubeconfig(t))
	must(t, err)
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "east",
			Labels: map[string]string{kubeconfig.DefaultLabel: "true"}},
		Data: map[string][]byte{kubeconfig.DefaultKey: file},
	}
	hub.Create(t, s)
	expect("east:abroad")

	label := client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"`+kubeconfig.DefaultLabel+`":null}}}`))
	must(t, hub.Client().Patch(t.Context(), s, label))
	m := <-managers
	hub.Eventually(t, time.Minute, func() bool {
		_, err := m.Cluster("east")
		return errors.Is(err, manager.ErrClusterNotFound)
	})
	east.Create(t, configMap("unseen"))
	hub.Create(t, configMap("last-at-home"))
	expect(":last-at-home")
	cancel()
	must(t, <-ended)
}

func labelled(e operator.Event) bool { return e.Object.GetLabels()["story"] == "yes" }

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
		Labels: map[string]string{"story": "yes"}}}
}
