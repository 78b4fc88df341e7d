package leader_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/require"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest/apiserver"
	"kelson.dev/operator/leader"
)

// On a real API server, in real time, the next replica leads within a second after the previous one
// ended.
func TestHandOverStory(t *testing.T) {
	config := apiserver.For(t)
	c, err := client.New(client.Config{REST: config})
	must(t, err)
	lease := client.Key{Namespace: "default", Name: "hand-over"}
	t.Cleanup(func() {
		_ = c.Delete(context.Background(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: lease.Namespace, Name: lease.Name}})
	})
	leads := make(chan string)
	enter := func(name string) (stop func() error) {
		e, err := leader.New(leader.Config{Client: c, Lease: lease, Identity: name, Log: slog.New(slog.DiscardHandler)})
		must(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			ended <- e.Run(ctx, func(ctx context.Context) error {
				leads <- name
				<-ctx.Done()
				return nil
			})
		}()
		return func() error { cancel(); return <-ended }
	}
	stop := enter("first")
	require.Equalf(t, <-leads, "first", "leads")
	for _, name := range []string{"second", "third", "fourth"} {
		next := enter(name)
		time.Sleep(100 * time.Millisecond) // time for it to start waiting
		begin := time.Now()
		must(t, stop())
		require.Equalf(t, <-leads, name, "leads")
		took := time.Since(begin)
		t.Logf("%s leads after %v", name, took)
		if took > time.Second {
			t.Errorf("the hand-over took %v", took)
		}
		stop = next
	}
	must(t, stop())
}
