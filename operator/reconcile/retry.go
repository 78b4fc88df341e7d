package reconcile

import (
	"context"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// conflictTries bounds RetryOnConflict. More conflicts in a row mean that two writers overwrite
// each other.
const conflictTries = 5

// RetryOnConflict calls write, which reads, changes and writes an object, and repeats it on
// conflicts: at most five calls, with short pauses. Reconcilers rarely need it, because the
// controller retries conflicts that Reconcile returns.
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
