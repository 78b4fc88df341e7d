package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
)

// Watch opens a watch of the items of list, which is not filled. The caller must Stop it, or end ctx.
func (c *restClient) Watch(ctx context.Context, list ObjectList, opts ...ListOption) (watch.Interface, error) {
	e, err := c.endpointOf(ctx, list)
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", list, err)
	}
	item, err := ItemOf(list, c.scheme)
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	o := NewListOptions(opts...)
	r := c.collection(http.MethodGet, e, o.Namespace)
	r.query = o.watchQuery()
	r.accept = acceptOf(list, false)
	r.stream = true
	ctx, cancel := context.WithCancel(ctx)
	resp, err := c.send(ctx, r)
	if err != nil {
		cancel()
		return nil, err
	}
	codec := codecOf(resp, newSharing(o.Shared))
	s := &stream{
		codec:   codec,
		newItem: NewItems(item).newItem,
		body:    resp.Body,
		next:    codec.frames(resp.Body),
		events:  make(chan watch.Event),
		done:    ctx.Done(),
		cancel:  cancel,
	}
	// A read that waits for the server ends when the body is closed, whatever the transport.
	s.release = context.AfterFunc(ctx, s.close)
	go s.run()
	return s, nil
}

// stream decodes the events of one watch.
type stream struct {
	codec   codec
	newItem func() Object
	body    io.ReadCloser
	next    func() (metav1.WatchEvent, error)
	events  chan watch.Event
	done    <-chan struct{}
	cancel  context.CancelFunc
	release func() bool
	once    sync.Once
}

func (s *stream) Stop()                          { s.cancel() }
func (s *stream) ResultChan() <-chan watch.Event { return s.events }
func (s *stream) close()                         { s.once.Do(func() { _ = s.body.Close() }) }

func (s *stream) run() {
	defer close(s.events)
	defer s.cancel()
	defer s.close()
	defer s.release()
	for {
		event, err := s.receive()
		if err != nil {
			if s.ended(err) {
				return
			}
			status := apierrors.NewGenericServerResponse(http.StatusInternalServerError, http.MethodGet, metav1.SchemeGroupVersion.WithResource("").GroupResource(), "", fmt.Sprintf("read watch: %v", err), 0, false).ErrStatus
			s.send(watch.Event{Type: watch.Error, Object: &status})
			return
		}
		if !s.send(event) || event.Type == watch.Error {
			return
		}
	}
}

func (s *stream) send(event watch.Event) bool {
	select {
	case s.events <- event:
		return true
	case <-s.done:
		return false
	}
}

func (s *stream) receive() (watch.Event, error) {
	frame, err := s.next()
	if err != nil {
		return watch.Event{}, err
	}
	event := watch.Event{Type: watch.EventType(frame.Type)}
	switch event.Type {
	case watch.Error:
		status := &metav1.Status{}
		event.Object = status
		return event, s.codec.decode(frame.Object.Raw, status, statusKind)
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		item := s.newItem()
		if e, ok := item.(*Encoded); ok && event.Type == watch.Bookmark {
			item = newItem(e.like) // its annotations count
		}
		event.Object = item
		return event, s.codec.decodeNew(frame.Object.Raw, item, item.GetObjectKind().GroupVersionKind())
	}
	return event, fmt.Errorf("unknown type of event %q", frame.Type)
}

// ended says that a watch ended as watches do: by its reader, its context, its time or its connection. The reader resumes.
func (s *stream) ended(err error) bool {
	select {
	case <-s.done:
		return true
	default:
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
}
