package reconcile

import (
	"context"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// conflictTries bounds RetryOnConflict. Whoever conflicts that often fights with somebody.
const conflictTries = 5

// RetryOnConflict calls write, which reads an object, changes it and writes it, again when someone else wrote meanwhile: up to five
// times, with short pauses. Reconcilers seldom need it: a conflict that Reconcile returns is retried, too.
func RetryOnConflict(ctx context.Context, write func(ctx context.Context) error) error {
	pause := 10 * time.Millisecond
	for try := 1; ; try++ {
		err := write(ctx)
		if !apierrors.IsConflict(err) || try == conflictTries {
			return err
		}
		timer := time.NewTimer(pause + rand.N(pause/2))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		pause *= 2
	}
}
