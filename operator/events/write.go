package events

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kelson.dev/operator/client"
)

// toServer is a Sink that writes to an API server.
type toServer struct {
	client client.Client

	mu     sync.Mutex
	filter filter
}

// Write creates an event, or increments the count of the event that it repeats.
func (s *toServer) Write(ctx context.Context, shared *corev1.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := *shared // its message may change, and the response is stored in it
	e := &own
	repeats, ok := s.filter.judge(e)
	if !ok {
		return nil
	}
	if repeats.name != "" {
		earlier := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: repeats.name}}
		err := s.client.Patch(ctx, earlier, repeatPatch(e, repeats.count+1))
		if err == nil {
			repeats.count++
			return nil
		}
		if !apierrors.IsNotFound(err) { // events expire; create a new one
			return err
		}
	}
	err := s.client.Create(ctx, e)
	// In virtual time, another program can have given the same name to an event about the object.
	for i := 1; apierrors.IsAlreadyExists(err) && i < maxNames; i++ {
		e.Name = fmt.Sprintf("%s.%d", shared.Name, i)
		err = s.client.Create(ctx, e)
	}
	if err != nil {
		*repeats = repeated{}
		return err
	}
	*repeats = repeated{name: e.Name, count: 1}
	return nil
}

// maxNames is how many names an event can take.
const maxNames = 100

// repeatPatch returns the patch that repeats an event.
func repeatPatch(e *corev1.Event, count int32) client.Patch {
	data, err := json.Marshal(map[string]any{"count": count, "lastTimestamp": e.LastTimestamp, "message": e.Message})
	if err != nil {
		panic(err) // unreachable: strings, numbers and times can be encoded
	}
	return client.RawPatch(types.MergePatchType, data)
}
