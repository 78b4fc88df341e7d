package operator_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/operator"
	"kelson.dev/operator/events"
	"kelson.dev/operator/internal/apitest"
)

// The sink of an operator gets its events, as the server does.
func TestEventSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := apitest.New()
		create(t, s, "default", "one", nil)
		got := make(chan string, 10)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- operator.Run(ctx, operator.Config{REST: s.REST(), Log: slog.New(slog.DiscardHandler)},
				operator.EventSink(events.SinkFunc(func(_ context.Context, e *corev1.Event) error {
					got <- e.Message
					return nil
				})),
				operator.Background(func(_ context.Context, deps operator.Deps) error {
					deps.Events.Event(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default",
						Name: "one"}}, "Normal", "Seen", "hello")
					return nil
				}))
		}()
		time.Sleep(time.Second)
		if m := <-got; m != "hello" || len(s.Objects("events")) != 1 {
			t.Errorf("the sink got %q, the server %v", m, s.Objects("events"))
		}
		cancel()
		must(t, <-ended)
	})
}
