package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

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

// A write that gets no response, or one that asks to try again, is repeated for patience. client-go
// repeats it twelve times, with pauses of ten seconds.
const (
	patience   = 2 * time.Minute
	firstPause = 100 * time.Millisecond
	maxPause   = 10 * time.Second
)

// Write creates an event, or increments the count of the event that it repeats. While the server
// cannot be reached, it tries again; later events wait.
func (s *toServer) Write(ctx context.Context, shared *corev1.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := *shared // its message may change, and the response is stored in it
	repeats, ok := s.filter.judge(&own)
	if !ok {
		return nil
	}
	begin, pause, unknown := time.Now(), firstPause, false
	for {
		e := own
		err := s.writeOnce(ctx, &e, repeats, unknown)
		if err == nil || !isTransient(err) || time.Since(begin) >= patience {
			return err
		}
		unknown = true // the server may have executed the write
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
		pause = min(2*pause, maxPause)
	}
}

// isTransient reports whether a write can succeed later.
func isTransient(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // no response
	}
	return apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTimeout(err)
}

// writeOnce writes an event. unknown means that an earlier try may have created it.
func (s *toServer) writeOnce(ctx context.Context, e *corev1.Event, repeats *repeated, unknown bool) error {
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
	name := e.Name
	err := s.client.Create(ctx, e)
	if unknown && apierrors.IsAlreadyExists(err) && s.created(ctx, e) {
		err = nil
	}
	// In virtual time, another program can have given the same name to an event about the object.
	for i := 1; apierrors.IsAlreadyExists(err) && i < maxNames; i++ {
		e.Name = fmt.Sprintf("%s.%d", name, i)
		err = s.client.Create(ctx, e)
	}
	if err != nil {
		repeats.name, repeats.count = "", 0
		return err
	}
	repeats.name, repeats.count = e.Name, 1
	return nil
}

// created reports whether the server has this event, from a try without a response.
func (s *toServer) created(ctx context.Context, e *corev1.Event) bool {
	var stored corev1.Event
	err := s.client.Get(ctx, client.KeyOf(e), &stored, client.Live)
	return err == nil && stored.InvolvedObject == e.InvolvedObject && stored.Reason == e.Reason &&
		stored.Message == e.Message &&
		stored.Source == e.Source
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
