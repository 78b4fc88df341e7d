package reconcile_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/util/intstr"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/informer"
	"kelson.dev/operator/reconcile"
)

// The reconciler gets a deep copy of the object: its changes are not visible in the cache or in the
// object in its context.
func TestPrivateCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		one, two := intstr.FromInt32(1), intstr.FromInt32(2)
		b := f.budget(t)
		b.Spec.MinAvailable, b.Labels = &one, map[string]string{"a": "b"}
		must(t, f.client.Update(t.Context(), b))

		informers, err := informer.New(informer.Config{Client: f.client})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- informers.Run(ctx) }()
		f.client = informers.Client()
		for _, fails := range []bool{false, true} {
			_, err = f.run(t, step(func(ctx context.Context, b *budget) (reconcile.Result, error) {
				*b.Spec.MinAvailable, b.Labels["a"] = two, "c"
				b.Annotations = map[string]string{"not": "written"}
				seen, ok := reconcile.Object(ctx).(*budget)
				if !ok || *seen.Spec.MinAvailable != one || seen.Labels["a"] != "b" || seen.Annotations != nil {
					t.Errorf("the object in the context is %+v", seen)
				}
				if fails {
					return reconcile.Result{}, errors.New("broken")
				}
				return reconcile.Result{}, nil
			}))
			assert.Equalf(t, err != nil, fails, "got %v", err)
			again, err := client.Get[budget](t.Context(), f.client, request.NamespacedName)
			must(t, err)
			inf, err := informers.For(&budget{})
			must(t, err)
			shared, _ := inf.Get(request.NamespacedName)
			for who, b := range map[string]*budget{"the client": again, "the informer": shared.(*budget)} {
				if *b.Spec.MinAvailable != one || b.Labels["a"] != "b" || b.Annotations != nil {
					t.Errorf("%s has %+v", who, b)
				}
			}
		}
		cancel()
		must(t, <-ended)
	})
}
