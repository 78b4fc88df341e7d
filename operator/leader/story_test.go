package leader_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/operator/client"
	"kelson.dev/operator/leader"
	"kelson.dev/operator/operatortest"
)

// MACH-08, RUN-07: on a real API server, in real time, the next replica leads within a second of the last one's end.
func TestHandOverStory(t *testing.T) {
	var config *rest.Config
	if path := os.Getenv("KELSON_TEST_KUBECONFIG"); path != "" {
		var err error
		config, err = clientcmd.BuildConfigFromFlags("", path)
		must(t, err)
	} else if os.Getenv("KELSON") == "" {
		t.Skip("SKIPPED: KELSON does not name a kelson binary, so nothing was seen of a real API server")
	} else {
		config = operatortest.New(t).RESTConfig()
	}
	c, err := client.New(client.Config{REST: config})
	must(t, err)
	lease := client.Key{Namespace: "default", Name: "hand-over"}
	t.Cleanup(func() {
		_ = c.Delete(context.Background(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: lease.Namespace, Name: lease.Name}})
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
	if name := <-leads; name != "first" {
		t.Fatalf("%s leads", name)
	}
	for _, name := range []string{"second", "third", "fourth"} {
		next := enter(name)
		time.Sleep(100 * time.Millisecond) // it waits by now
		begin := time.Now()
		must(t, stop())
		if now := <-leads; now != name {
			t.Fatalf("%s leads", now)
		}
		took := time.Since(begin)
		t.Logf("%s leads after %v", name, took)
		if took > time.Second {
			t.Errorf("the hand-over took %v", took)
		}
		stop = next
	}
	must(t, stop())
}
