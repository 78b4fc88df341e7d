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
	// A read that waits for the server ends when the body is closed, whatever the transport.
	s.release = context.AfterFunc(ctx, s.close)
	go s.run()
	return s, nil
}

// stream decodes the events of one watch: one after the other when they come so, and several at a time when there are many, as there are at
// the beginning.
type stream struct {
	codecs  []codec // one for each goroutine that decodes
	another func() codec
	newItem func() Object
	known   Known // nil if nothing is
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
	var before []decoded // the batch before this one
	var sent chan bool   // what became of it, if it is being sent: whether to go on
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
			goOn := <-sent
			if sent = nil; !goOn {
				return
			}
		}
		if len(s.batch) < minAhead {
			if !s.sendAll(s.batch) {
				return
			}
			continue
		}
		// There is much: the next is read and decoded while this is sent.
		s.batch, before = before, s.batch
		sent = make(chan bool, 1)
		go func(batch []decoded, sent chan<- bool) {
			goOn := s.sendAll(batch)
			if !goOn {
				s.cancel() // nobody needs what is being read
			}
			sent <- goOn
		}(before, sent)
	}
}

// sendAll sends a batch, and says whether there may be more.
func (s *stream) sendAll(batch []decoded) bool {
	for _, d := range batch {
		if d.err != nil {
			s.fail(d.err)
			return false
		}
		if !s.send(d.event) || d.event.Type == watch.Error {
			return false
		}
	}
	return true
}

// fail tells of an error, unless it is how watches end.
func (s *stream) fail(err error) {
	if s.ended(err) {
		return
	}
	status := apierrors.NewGenericServerResponse(http.StatusInternalServerError, http.MethodGet, metav1.SchemeGroupVersion.WithResource("").GroupResource(), "", fmt.Sprintf("read watch: %v", err), 0, false).ErrStatus
	s.send(watch.Event{Type: watch.Error, Object: &status})
}

// decoded is an event, or why there is none.
type decoded struct {
	frame metav1.WatchEvent
	event watch.Event
	err   error
}

const (
	// maxBatch is how many events are decoded before they are sent.
	maxBatch = 64
	// minAhead is how many are worth a goroutine that sends them.
	minAhead = 16
	// minPart is how many are worth a goroutine.
	minPart = 8
	// maxDecoders bounds the goroutines of one watch: each has texts of its own that are shared.
	maxDecoders = 4
)

// receive makes a batch of what is here, or of the one event that it waits for.
func (s *stream) receive() {
	clear(s.batch) // what was sent is the receiver's
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
			item = newItem(e.like) // its annotations count
		}
		event.Object = item
		return event, c.decodeNew(frame.Object.Raw, item, item.GetObjectKind().GroupVersionKind())
	}
	return event, fmt.Errorf("unknown type of event %q", frame.Type)
}

// knownObject is the object of an event, if it need not be decoded. The result is an interface without a value, otherwise.
func (s *stream) knownObject(c codec, event watch.EventType, data []byte) runtime.Object {
	if event != watch.Added && event != watch.Modified || s.known == nil || !s.known.Some() {
		return nil
	}
	head, err := c.headIn(data)
	if err != nil {
		return nil // decoding it will tell
	}
	if obj := s.known.Object(head); obj != nil {
		return obj
	}
	return nil
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
