package informer_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/internal/apitest"
)

// An informer that was read from ends when it is removed, unless it has an index; with a handler,
// it ends with the handler. InUse ends it in any case.
func TestRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		direct, err := client.New(client.Config{REST: s.REST()})
		must(t, err)
		informers, err := informer.New(informer.Config{Client: direct})
		must(t, err)
		stop := require.Running(t, informers.Run)
		count := func(want int) {
			t.Helper()
			time.Sleep(time.Second)
			require.Equalf(t, len(informers.Statuses()), want, "watches")
		}
		read := func() {
			t.Helper()
			_, err := client.List[corev1.ConfigMap](t.Context(), informers.Client())
			must(t, err)
		}
		informers.Remove(&corev1.ConfigMap{}) // there is none
		read()
		count(1)
		informers.Remove(&corev1.ConfigMap{})
		count(0)
		read() // starts a new one
		count(1)
		inf, err := informers.For(&corev1.ConfigMap{})
		must(t, err)
		registration, err := inf.AddHandler(&quiet{})
		must(t, err)
		informers.Remove(&corev1.ConfigMap{})
		count(1)
		registration.Remove()
		count(0)
		must(t, inf.AddIndex("none", func(client.Object) []string { return nil }))
		informers.Remove(&corev1.ConfigMap{})
		count(1)
		informers.Remove(&corev1.ConfigMap{}, informer.InUse)
		count(0)
		read()
		count(1)
		stop()
	})
}

// quiet is a handler without effect.
type quiet struct{}

func (*quiet) OnAdd(client.Object, bool)             {}
func (*quiet) OnUpdate(client.Object, client.Object) {}
func (*quiet) OnDelete(client.Object, bool)          {}

var must = require.NoError
