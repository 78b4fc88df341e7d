package audit

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	hookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/audit/buffered"
	"k8s.io/client-go/rest"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// slowBackend stores no events until it is released.
type slowBackend struct {
	audit.Backend
	released chan struct{}
	stored   chan int // sizes of batches
}

func (s *slowBackend) ProcessEvents(events ...*auditinternal.Event) bool {
	<-s.released
	s.stored <- len(events)
	return true
}

func (s *slowBackend) Run(<-chan struct{}) error { return nil }
func (s *slowBackend) Shutdown()                 { close(s.stored) }
func (s *slowBackend) String() string            { return "slow" }

// While a backend stores nothing, mode batch holds a bounded number of bytes, also in batches that
// have left the buffer. More events are lost; the server logs when that begins and ends.
func TestSlowBackend(t *testing.T) {
	const most = 100 << 10
	for _, test := range []struct {
		name         string
		size, buffer int
		async        bool
		want         int
	}{
		{"bytes", 10 << 10, 10_000, true, most / (10<<10 + eventSize)},
		{"number", 0, 30, false, 30 + 10}, // a batch of ten waits for the backend
		{"one large event", 2 * most, 10_000, true, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				slow := &slowBackend{released: make(chan struct{}), stored: make(chan int, 100)}
				batches := buffered.BatchConfig{BufferSize: test.buffer, MaxBatchSize: 10, MaxBatchWait: time.Second,
					AsyncDelegate: test.async}
				backend := newPending(slow, batches, most, slog.New(slog.NewTextHandler(&log, nil)))
				stop := make(chan struct{})
				require.NoError(t, backend.Run(stop))
				event := &auditinternal.Event{}
				if test.size > 0 {
					event.RequestObject = &runtime.Unknown{Raw: make([]byte, test.size)}
				}
				for range 100 {
					backend.ProcessEvents(event)
					synctest.Wait()
				}
				close(slow.released)
				time.Sleep(time.Minute)
				backend.ProcessEvents(&auditinternal.Event{}) // there is space again
				close(stop)
				backend.Shutdown()
				stored := 0
				for n := range slow.stored {
					stored += n
				}
				assert.Equalf(t, stored, test.want+1, "events are stored")
				if text := log.String(); strings.Count(text, "write audit buffer: events are lost") != 1 ||
					strings.Count(text, "audit buffer is writable again") != 1 {
					t.Errorf("the log says %s", text)
				}
			})
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A webhook that hangs does not keep the server from stopping.
func TestCloseWithHangingWebhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		client, err := rest.UnversionedRESTClientForConfigAndClient(&rest.Config{
			Host: "https://audit", QPS: -1,
			ContentConfig: rest.ContentConfig{GroupVersion: &auditv1.SchemeGroupVersion,
				NegotiatedSerializer: audit.Codecs},
		}, &http.Client{Timeout: 30 * time.Second,
			Transport: roundTrip(func(req *http.Request) (*http.Response, error) {
				<-req.Context().Done()
				return nil, req.Context().Err()
			})})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		logger := slog.New(slog.NewTextHandler(&log, nil))
		cfg := Defaults().Webhook
		h := hookOf(ctx, &hookutil.GenericWebhook{RestClient: client,
			RetryBackoff: hookutil.DefaultRetryBackoffWithInitialDelay(cfg.InitialBackoff)}, logger)
		trail := &Trail{backend: cfg.Delivery.wrap(h, logger), stop: make(chan struct{}), giveUp: cancel}
		require.NoError(t, trail.backend.Run(trail.stop))
		for range 5_000 {
			trail.ProcessEvents(&auditinternal.Event{Level: auditinternal.LevelMetadata})
		}
		time.Sleep(time.Minute)
		begin := time.Now()
		assert.NoError(t, trail.Close())
		if took := time.Since(begin); took > patience+time.Second {
			t.Errorf("stopping took %s", took)
		}
		assert.Containsf(t, log.String(), "write audit webhook: events are lost", "the log says")
	})
}
