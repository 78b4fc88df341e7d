package operator_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/operator/client"
	"kelson.dev/operator/events"
	"kelson.dev/operator/internal/apitest"
)

type eventsFixture struct {
	*apitest.Server
	*events.Broadcaster
	*events.Recorder
	stop func()
}

func startEvents(t *testing.T, cfg events.Config) *eventsFixture {
	t.Helper()
	s := apitest.New()
	c, err := client.New(client.Config{REST: s.REST()})
	must(t, err)
	cfg.Client = c
	cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	f := &eventsFixture{Server: s, Broadcaster: events.New(cfg)}
	f.Recorder = f.Broadcaster.Recorder("tester")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	f.stop = func() {
		t.Helper()
		cancel()
		assert.NoError(t, <-ended)
	}
	return f
}

// lines returns the events on the server, without the parts that differ from run to run.
func (f *eventsFixture) lines() []string {
	var lines []string
	for _, e := range f.Objects("events") {
		about := e["involvedObject"].(map[string]any)
		lines = append(lines, fmt.Sprintf("%v %v %v %v x%v: %v", about["kind"], about["name"], e["type"], e["reason"],
			e["count"], e["message"]))
	}
	slices.Sort(lines)
	return lines
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u"}}
}

// An Event names its object, type, reason, message and component. That of an object without a
// namespace is in the namespace default.
func TestWrittenEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startEvents(t, events.Config{})
		f.Eventf(pod("a"), corev1.EventTypeNormal, "Started", "after %v", time.Second)
		f.Event(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, corev1.EventTypeWarning, "Full", "no room")
		f.stop()
		want := []string{"Node n Warning Full x1: no room", "Pod a Normal Started x1: after 1s"}
		assert.Slice(t, f.lines(), want)
		for _, e := range f.Objects("events") {
			about := e["involvedObject"].(map[string]any)
			if e["metadata"].(map[string]any)["namespace"] != "default" || about["apiVersion"] != "v1" ||
				e["source"].(map[string]any)["component"] != "tester" || e["reportingComponent"] != "tester" ||
				e["firstTimestamp"] != "2000-01-01T00:00:00Z" {
				t.Errorf("got %v", e)
			}
		}
	})
}

// Equal Events are counted in one, many similar ones are combined, and the rate for each object is
// limited.
func TestRepetition(t *testing.T) {
	type repetition struct {
		name   string
		record func(f *eventsFixture)
		want   []string
	}
	tests := []repetition{
		{"same", func(f *eventsFixture) {
			for range 3 {
				f.Event(pod("a"), "Normal", "R", "m")
				time.Sleep(time.Minute)
			}
			f.Event(pod("b"), "Normal", "R", "m")
		}, []string{"Pod a Normal R x3: m", "Pod b Normal R x1: m"}},
		{"similar", func(f *eventsFixture) {
			for i := range 13 {
				f.Event(pod("a"), "Normal", "R", fmt.Sprintf("m%02d", i))
			}
		}, []string{"Pod a Normal R x1: m00", "Pod a Normal R x1: m01", "Pod a Normal R x1: m02",
			"Pod a Normal R x1: m03", "Pod a Normal R x1: m04",
			"Pod a Normal R x1: m05", "Pod a Normal R x1: m06", "Pod a Normal R x1: m07", "Pod a Normal R x1: m08",
			"Pod a Normal R x1: m09",
			"Pod a Normal R x3: (combined from similar events): m12"}},
		{"similar, but seldom", func(f *eventsFixture) {
			for i := range 12 {
				f.Event(pod("a"), "Normal", "R", fmt.Sprint(i%2, i/2))
				time.Sleep(5 * time.Minute)
			}
		}, []string{"Pod a Normal R x1: 0 0", "Pod a Normal R x1: 0 1", "Pod a Normal R x1: 0 2",
			"Pod a Normal R x1: 0 3", "Pod a Normal R x1: 0 4", "Pod a Normal R x1: 0 5",
			"Pod a Normal R x1: 1 0", "Pod a Normal R x1: 1 1", "Pod a Normal R x1: 1 2", "Pod a Normal R x1: 1 3",
			"Pod a Normal R x1: 1 4", "Pod a Normal R x1: 1 5"}},
		{"spam", func(f *eventsFixture) {
			for range 100 {
				f.Event(pod("a"), "Normal", "R", "m")
			}
			time.Sleep(11 * time.Minute) // two more
			for range 100 {
				f.Event(pod("a"), "Normal", "R", "m")
			}
			f.Event(pod("b"), "Normal", "R", "m")
		}, []string{"Pod a Normal R x27: m", "Pod b Normal R x1: m"}},
	}
	var often []string
	for i := range 40 {
		often = append(often, fmt.Sprintf("Pod a Normal R x1: %02d", i))
	}
	tests = append(tests, repetition{"one message among many", func(f *eventsFixture) {
		for i := range 40 {
			f.Event(pod("a"), "Normal", "R", "often")
			f.Event(pod("a"), "Normal", "R", fmt.Sprintf("%02d", i))
			time.Sleep(11 * time.Minute)
		}
	}, append(often, "Pod a Normal R x40: often")})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := startEvents(t, events.Config{})
				tt.record(f)
				f.stop()
				if got := f.lines(); !slices.Equal(got, tt.want) {
					t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
				}
			})
		})
	}
}

// A repeated Event that was deleted on the server is created again.
func TestExpiredEventIsCreatedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startEvents(t, events.Config{})
		f.Event(pod("a"), "Normal", "R", "m")
		synctest.Wait()
		name := f.Objects("events")[0]["metadata"].(map[string]any)["name"].(string)
		r, _ := http.NewRequest(http.MethodDelete, "http://x/api/v1/namespaces/default/events/"+name, nil)
		if res, err := f.RoundTrip(r); err != nil || res.StatusCode != 200 {
			t.Fatal(res, err)
		}
		f.Event(pod("a"), "Normal", "R", "m")
		f.stop()
		if got, want := f.lines(), []string{"Pod a Normal R x1: m"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// Recording returns at once although the server does not respond, and drops Events if the buffer is
// full.
func TestRecordingNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startEvents(t, events.Config{Buffer: 2, FlushTimeout: time.Second})
		f.SetFaults(apitest.Faults{Intercept: func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}})
		begin := time.Now()
		f.Event(pod("first"), "Normal", "R", "m")
		synctest.Wait()
		for i := range 5 {
			f.Event(pod(fmt.Sprint(i)), "Normal", "R", "m")
		}
		if took := time.Since(begin); took > 0 || f.Dropped() != 3 {
			t.Errorf("%d were dropped in %v", f.Dropped(), took)
		}
		f.stop()
	})
}

// Dropped events are logged, once until the buffer is empty again.
func TestDroppedEventsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := client.New(client.Config{REST: apitest.New().REST()})
		must(t, err)
		var log bytes.Buffer // only the recorder's goroutine logs
		next := make(chan struct{})
		sink := events.SinkFunc(func(context.Context, *corev1.Event) error { <-next; return nil })
		b := events.New(events.Config{Client: c, Sinks: []events.Sink{sink}, Buffer: 2,
			Log: slog.New(slog.NewTextHandler(&log, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.Run(ctx) }()
		r := b.Recorder("tester")
		for round := 1; round <= 2; round++ {
			for range 3 { // one is being written, two wait
				r.Event(pod("a"), "Normal", "R", "m")
				synctest.Wait()
			}
			for range 1000 {
				r.Event(pod("a"), "Normal", "R", "m")
			}
			if lines := strings.Count(log.String(), "dropping events"); lines != round ||
				b.Dropped() != int64(1000*round) {
				t.Errorf("round %d: %d lines about %d dropped events", round, lines, b.Dropped())
			}
			for range 3 {
				next <- struct{}{}
			}
			synctest.Wait()
		}
		cancel()
		assert.NoError(t, <-ended)
	})
}

// A nil recorder can be used.
func TestNilRecorder(t *testing.T) {
	var r *events.Recorder
	r.Event(pod("a"), "Normal", "R", "m")
	r.Eventf(pod("a"), "Normal", "R", "m")
}

// In virtual time, two programs can give Events about one object the same name. Both are written,
// and repeats count on the right one.
func TestNameInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startEvents(t, events.Config{})
		c, err := client.New(client.Config{REST: f.REST()})
		must(t, err)
		other := events.New(events.Config{Client: c})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- other.Run(ctx) }()
		f.Event(pod("a"), corev1.EventTypeNormal, "First", "x")
		for range 2 {
			other.Recorder("other").Event(pod("a"), corev1.EventTypeNormal, "Second", "y")
		}
		synctest.Wait()
		want := []string{"Pod a Normal First x1: x", "Pod a Normal Second x2: y"}
		assert.Slice(t, f.lines(), want)
		cancel()
		<-ended
		f.stop()
	})
}
