package operator_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
	"kelson.dev/operator/internal/apitest"
)

// Config.Plain reaches the clients: an apply of a missing object is an apply. Transforms of a kind
// are called in order.
func TestPlainConfig(t *testing.T) {
	for name, tt := range map[string]struct {
		plain client.Plain
		want  string
	}{
		"default": {client.Plain{}, "POST /api/v1/namespaces/default/configmaps"},
		"applies": {client.Plain{Applies: true}, "PATCH /api/v1/namespaces/default/configmaps/new"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := apitest.New()
				label := func(value string) operator.Part {
					return operator.Transform(func(cm *corev1.ConfigMap) *corev1.ConfigMap {
						metav1.SetMetaDataAnnotation(&cm.ObjectMeta, "seen", cm.Annotations["seen"]+value)
						return cm
					})
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var seen string
				must(t, operator.Run(ctx, operator.Config{REST: s.REST(), Log: slog.New(slog.DiscardHandler),
					Plain: tt.plain},
					operator.Background(func(ctx context.Context, deps operator.Deps) error {
						if _, err := client.List[corev1.ConfigMap](ctx, deps.Client); err != nil {
							return err
						}
						_, err := operator.Apply(ctx, deps.Client,
							&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "new"}})
						return err
					})))
				if got := s.Requests(); !slices.Equal(got, []string{tt.want}) {
					t.Errorf("sent %q, want %q", got, tt.want)
				}
				ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				must(t, operator.Run(ctx, operator.Config{REST: s.REST(), Log: slog.New(slog.DiscardHandler)},
					label("a"), label("b"),
					operator.Background(func(ctx context.Context, deps operator.Deps) error {
						cm, err := client.Get[corev1.ConfigMap](ctx, deps.Client,
							client.Key{Namespace: "default", Name: "new"})
						if err == nil {
							seen = cm.Annotations["seen"]
						}
						return err
					})))
				assert.Equalf(t, seen, "ab", "the transforms made")
			})
		})
	}
}
