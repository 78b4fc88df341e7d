package scheduler

import (
	"context"
	"fmt"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
)

// sink writes the scheduler's Events. client-go names an Event by its object and the time in
// nanoseconds. In virtual time, another component may have written an Event about the same pod at
// the same nanosecond, so the sink tries other names.
type sink struct{ events.EventSinkImpl }

// maxNames is how many names the sink tries.
const maxNames = 10

func (s *sink) Create(ctx context.Context, event *eventsv1.Event) (*eventsv1.Event, error) {
	named := event
	for i := 1; ; i++ {
		created, err := s.EventSinkImpl.Create(ctx, named)
		if !apierrors.IsAlreadyExists(err) || event.Series != nil || i == maxNames {
			return created, err
		}
		named = event.DeepCopy()
		named.Name = fmt.Sprintf("%s.%d", event.Name, i)
	}
}
