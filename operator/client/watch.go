package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	goruntime "runtime"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
)

// Watch starts a watch of the items of list, which is not filled. The caller must call Stop or end
// ctx. Watch does not retry if the server asks to try later: callers that follow a kind retry
// anyway, and report the error.
func (c *restClient) Watch(ctx context.Context, list ObjectList, opts ...ListOption) (watch.Interface, error) {
	e, err := c.endpointOfItems(ctx, list)
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", list, err)
	}
	item, err := ItemOf(list, c.scheme)
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	o := NewListOptions(opts...)
	if err := o.checkIndexes(); err != nil {
		return nil, fmt.Errorf("watch %s: %w", e.resource.GroupResource(), err)
	}
	r, err := c.collection(http.MethodGet, e, o.Namespace)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", e.resource.GroupResource(), err)
	}
	r.query = o.watchQuery()
	r.accept = acceptOf(list, false)
	r.stream, r.reports = true, true
	ctx, cancel := context.WithCancel(ctx)
	resp, err := c.send(ctx, r)
	if err != nil {
		cancel()
		return nil, err
	}
	s := &stream{
		codecs:  []codec{codecOf(resp, newSharing(o.Shared))},
		another: func() codec { return codecOf(resp, newSharing(o.Shared)) },
		newItem: NewItems(item).newItem,
		body:    resp.Body,
		known:   o.Known,
		frames:  codecOf(resp, nil).frames(resp.Body),
		events:  make(chan watch.Event),
		done:    ctx.Done(),
		cancel:  cancel,
	}
	// Closing the body ends a read that waits for the server, with any transport.
	s.release = context.AfterFunc(ctx, s.close)
	go s.run()
	return s, nil
}

// stream decodes the events of one watch: one at a time in general, and several in parallel when
// many arrive, as at the start.
type stream struct {
	codecs  []codec // one for each decoding goroutine
	another func() codec
	newItem func() Object
	known   Known // nil if none
	body    io.ReadCloser
	frames  frames
	batch   []decoded
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
	var before []decoded // the previous batch
	// result of sending that batch, while it is being sent: whether to continue
	var sent chan bool
	defer func() {
		if sent != nil {
			<-sent
		}
	}()
	defer s.cancel()
	defer s.close()
	defer s.release()
	for {
		s.receive()
		if sent != nil {
			more := <-sent
			if sent = nil; !more {
				return
			}
		}
		if len(s.batch) < minAhead {
			if !s.sendAll(s.batch) {
				return
			}
			continue
		}
		// With many events, read and decode the next batch while this one is sent.
		s.batch, before = before, s.batch
		sent = make(chan bool, 1)
		go func(batch []decoded, sent chan<- bool) {
			more := s.sendAll(batch)
			if !more {
				s.cancel() // no reader for further events
			}
			sent <- more
		}(before, sent)
	}
}

// sendAll sends a batch, and reports whether the stream continues.
func (s *stream) sendAll(batch []decoded) bool {
	for _, d := range batch {
		if d.err != nil {
			if d.garbled || !s.ended(d.err) {
				s.fail(d.err)
			}
			return false
		}
		if !s.send(d.event) || d.event.Type == watch.Error {
			return false
		}
	}
	return true
}

// fail sends an error event.
func (s *stream) fail(err error) {
	status := apierrors.NewGenericServerResponse(http.StatusInternalServerError, http.MethodGet,
		metav1.SchemeGroupVersion.WithResource("").GroupResource(), "", fmt.Sprintf("read watch: %v", err), 0,
		false).ErrStatus
	s.send(watch.Event{Type: watch.Error, Object: &status})
}

// decoded is an event, or the error in its place.
type decoded struct {
	frame   metav1.WatchEvent
	event   watch.Event
	err     error
	garbled bool // the frame was complete, and err is that of its decoding
}

const (
	// maxBatch is the maximum number of events that are decoded before they are sent.
	maxBatch = 64
	// minAhead is the smallest batch that is sent by a separate goroutine.
	minAhead = 16
	// minPart is the smallest part of a batch that is decoded by a separate goroutine.
	minPart = 8
	// maxDecoders bounds the decoding goroutines of one watch: each has its own shared strings.
	maxDecoders = 4
)

// receive fills the batch with the events that have arrived, or waits for one.
func (s *stream) receive() {
	clear(s.batch) // the receiver owns the events that were sent
	s.batch = s.batch[:0]
	for len(s.batch) == 0 || len(s.batch) < maxBatch && s.frames.more() {
		frame, err := s.frames.next()
		s.batch = append(s.batch, decoded{frame: frame, err: err})
		if err != nil {
			break
		}
	}
	parts := min(len(s.batch)/minPart, goruntime.GOMAXPROCS(0), maxDecoders)
	for parts > len(s.codecs) {
		s.codecs = append(s.codecs, s.another())
	}
	if parts <= 1 {
		s.decodeAll(s.codecs[0], s.batch)
		return
	}
	var others sync.WaitGroup
	for n := 1; n < parts; n++ {
		part := s.batch[n*len(s.batch)/parts : (n+1)*len(s.batch)/parts]
		others.Go(func() { s.decodeAll(s.codecs[n], part) })
	}
	s.decodeAll(s.codecs[0], s.batch[:len(s.batch)/parts])
	others.Wait()
}

func (s *stream) decodeAll(c codec, part []decoded) {
	for n := range part {
		if d := &part[n]; d.err == nil {
			d.event, d.err = s.decode(c, d.frame)
			d.garbled = d.err != nil
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

func (s *stream) decode(c codec, frame metav1.WatchEvent) (watch.Event, error) {
	event := watch.Event{Type: watch.EventType(frame.Type)}
	switch event.Type {
	case watch.Error:
		status := &metav1.Status{}
		event.Object = status
		return event, c.decode(frame.Object.Raw, status, statusKind)
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark:
		if event.Object = s.knownObject(c, event.Type, frame.Object.Raw); event.Object != nil {
			return event, nil
		}
		item := s.newItem()
		if e, ok := item.(*Encoded); ok && event.Type == watch.Bookmark {
			item = newItem(e.like) // the annotations of a bookmark are needed
		}
		event.Object = item
		return event, c.decodeNew(frame.Object.Raw, item, item.GetObjectKind().GroupVersionKind())
	}
	return event, fmt.Errorf("unknown type of event %q", frame.Type)
}

// knownObject returns the object of an event if it need not be decoded, otherwise a nil interface.
func (s *stream) knownObject(c codec, event watch.EventType, data []byte) runtime.Object {
	if event != watch.Added && event != watch.Modified || s.known == nil || !s.known.Some() {
		return nil
	}
	head, err := c.headIn(data)
	if err != nil {
		return nil // decode reports the error
	}
	if obj := s.known.Object(head); obj != nil {
		return obj
	}
	return nil
}

// ended reports whether a watch ended normally: by its reader, its context, its timeout or its
// connection. The reader resumes it.
func (s *stream) ended(err error) bool {
	select {
	case <-s.done:
		return true
	default:
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || utilnet.IsProbableEOF(err) ||
		utilnet.IsTimeout(err)
}
