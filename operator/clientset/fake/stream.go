package fake

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// stream is the body of a watch. Read encodes the events; there is no goroutine.
type stream struct {
	ctx       context.Context
	transport *transport
	watch     watch.Interface
	opts      metav1.ListOptions
	version   uint64
	rest      bytes.Buffer

	once   sync.Once
	closed chan struct{}
}

func newStream(ctx context.Context, t *transport, w watch.Interface, opts metav1.ListOptions) *stream {
	version, _ := strconv.ParseUint(opts.ResourceVersion, 10, 64) // "" means the first revision
	return &stream{ctx: ctx, transport: t, watch: w, opts: opts, version: version, closed: make(chan struct{})}
}

// Read returns available data, or waits for the next event.
func (s *stream) Read(p []byte) (int, error) {
	for s.rest.Len() == 0 {
		select {
		case <-s.ctx.Done():
			return 0, s.ctx.Err()
		case <-s.closed:
			return 0, io.EOF
		case event, ok := <-s.watch.ResultChan():
			if !ok {
				return 0, io.EOF
			}
			if err := s.encode(event); err != nil {
				return 0, err
			}
		}
	}
	return s.rest.Read(p)
}

func (s *stream) encode(event watch.Event) error {
	if event.Object == nil || event.Type != watch.Error && !matches(s.opts, event.Object) {
		return nil
	}
	obj := event.Object.DeepCopyObject()
	s.version++
	s.transport.identify(obj, strconv.FormatUint(s.version, 10))
	return json.NewEncoder(&s.rest).Encode(metav1.WatchEvent{Type: string(event.Type),
		Object: runtime.RawExtension{Object: obj}})
}

// Close ends the watch.
func (s *stream) Close() error {
	s.once.Do(func() {
		close(s.closed)
		s.watch.Stop()
	})
	return nil
}
