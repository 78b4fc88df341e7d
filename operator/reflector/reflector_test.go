package reflector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"kelson.dev/internal/assert"
)

// script is a source with predefined results: each call returns the next one. It records calls with
// their time.
type script struct {
	answers []any // an error, a Page, or a watch.Interface
	calls   []string
}

func (s *script) next(format string, args ...any) any {
	s.calls = append(s.calls, fmt.Sprintf(format, args...))
	if len(s.answers) == 0 {
		return errServer
	}
	answer := s.answers[0]
	s.answers = s.answers[1:]
	return answer
}

func (s *script) List(_ context.Context, o ListOptions) (Page[object], error) {
	switch a := s.next("list %d %s", o.Limit, o.Continue).(type) {
	case Page[object]:
		return a, nil
	case error:
		return Page[object]{}, a
	}
	panic("not an answer to a list")
}

func (s *script) Watch(_ context.Context, o WatchOptions) (watch.Interface, error) {
	switch a := s.next("watch %s %v", o.Version, o.InitialEvents).(type) {
	case watch.Interface:
		return a, nil
	case error:
		return nil, a
	}
	panic("not an answer to a watch")
}

// stream is a watch of given events; it ends by itself if closed is set.
func stream(closed bool, events ...watch.Event) watch.Interface {
	w := watch.NewFakeWithChanSize(len(events)+1, false)
	for _, e := range events {
		w.Action(e.Type, e.Object)
	}
	if closed {
		w.Stop()
	}
	return w
}

func initialEnd(version int) watch.Event {
	o := obj("", version)
	o.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	return watch.Event{Type: watch.Bookmark, Object: o}
}

type sink struct{ lines []string }

func (s *sink) Add(o object)      { s.lines = append(s.lines, "+"+o.Name) }
func (s *sink) Update(o object)   { s.lines = append(s.lines, "~"+o.Name) }
func (s *sink) Delete(o object)   { s.lines = append(s.lines, "-"+o.Name) }
func (s *sink) Bookmark(v string) { s.lines = append(s.lines, "at "+v) }
func (s *sink) Resync()           { s.lines = append(s.lines, "resync") }
func (s *sink) Replace(items []object, v string) {
	var names []string
	for _, o := range items {
		names = append(names, o.Name)
	}
	slices.Sort(names)
	s.lines = append(s.lines, fmt.Sprintf("=%s at %s", strings.Join(names, ""), v))
}

// reflect runs a reflector for a while.
func reflect(t *testing.T, lasts time.Duration, cfg Config[object], answers ...any) (calls, lines string) {
	t.Helper()
	source, into := &script{answers: answers}, &sink{}
	cfg.Source, cfg.Sink = source, into
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	assert.ErrorIsf(t, New(cfg).Run(ctx), context.DeadlineExceeded, "run")
	return strings.Join(source.calls, ", "), strings.Join(into.lines, ", ")
}

// The driver streams or lists page by page, resumes an ended watch, and starts again after an
// expired one.
func TestDriver(t *testing.T) {
	added := func(name string, v int) watch.Event { return watch.Event{Type: watch.Added, Object: obj(name, v)} }
	expired := errExpired.Status()
	for name, tt := range map[string]struct {
		answers      func() []any // made inside the bubble
		calls, lines string
	}{
		"stream": {
			func() []any {
				return []any{stream(false, added("a", 1), added("b", 2), initialEnd(2), added("c", 3),
					watch.Event{Type: watch.Modified, Object: obj("a", 4)},
					watch.Event{Type: watch.Deleted, Object: obj("b", 5)},
					watch.Event{Type: watch.Bookmark, Object: obj("", 9)})}
			},
			"watch  true", "=ab at 2, +c, ~a, -b, at 9",
		},
		"pages": {
			func() []any {
				return []any{errRefused, Page[object]{Items: []object{obj("a", 1)}, Version: "2", Continue: "x"},
					Page[object]{Items: []object{obj("b", 2)}, Version: "2"}, stream(false)}
			},
			"watch  true, list 500 , list 500 x, watch 2 false", "=ab at 2",
		},
		"busy between pages": {
			func() []any {
				return []any{errRefused, Page[object]{Items: []object{obj("a", 1)}, Version: "2", Continue: "x"},
					errBusy, Page[object]{Items: []object{obj("b", 2)}, Version: "2"}, stream(false)}
			},
			"watch  true, list 500 , list 500 x, list 500 x, watch 2 false", "=ab at 2",
		},
		"busy for an hour": {
			func() []any { return []any{apierrors.NewTooManyRequests("busy", 3600), stream(false, initialEnd(2))} },
			"watch  true, watch  true", "= at 2",
		},
		"resume": {
			func() []any { return []any{stream(true, initialEnd(2), added("c", 3)), stream(false)} },
			"watch  true, watch 3 false", "= at 2, +c",
		},
		"expired": {
			func() []any {
				return []any{stream(false, initialEnd(2), watch.Event{Type: watch.Error, Object: &expired}),
					stream(false, initialEnd(7))}
			},
			"watch  true, watch  true", "= at 2, = at 7",
		},
		"another type": {
			func() []any {
				return []any{stream(false, initialEnd(2), watch.Event{Type: watch.Added, Object: &metav1.Status{}}),
					stream(false)}
			},
			"watch  true, watch 2 false", "= at 2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls, lines := reflect(t, time.Minute, Config[object]{}, tt.answers()...)
				assert.Equalf(t, calls, tt.calls, "calls")
				assert.Equalf(t, lines, tt.lines, "deltas")
			})
		})
	}
}

// Objects are transformed and resyncs are reported, for streams and for lists.
func TestResyncAndTransform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config[object]{Resync: time.Minute, Transform: func(o object) object {
			return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: strings.ToUpper(o.Name),
				ResourceVersion: o.ResourceVersion}}
		}}
		_, lines := reflect(t, 150*time.Second, cfg,
			stream(false, watch.Event{Type: watch.Added, Object: obj("a", 1)}, initialEnd(2)))
		assert.Equal(t, lines, "=A at 2, resync, resync")
		_, lines = reflect(t, 150*time.Second, cfg, errRefused,
			Page[object]{Items: []object{obj("a", 1)}, Version: "2"}, stream(false))
		assert.Equal(t, lines, "=A at 2, resync, resync")
	})
}

// A watch that the server does not end in time is closed.
func TestWatchThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, _ := reflect(t, 3*time.Minute, Config[object]{WatchTimeout: time.Minute}, stream(false, initialEnd(2)),
			stream(false))
		assert.Equal(t, calls, "watch  true, watch 2 false")
	})
}

// A watch that delivers nothing for too long is reopened, even if it never delivered a bookmark: a
// load balancer may have lost the server. A watch in the same process may be silent.
func TestSilentWatch(t *testing.T) {
	bookmark := watch.Event{Type: watch.Bookmark, Object: obj("", 7)}
	page := Page[object]{Version: "2"}
	for _, tt := range []struct {
		timeout time.Duration
		events  []watch.Event
		calls   string
	}{
		{0, []watch.Event{bookmark, {Type: watch.Added, Object: obj("a", 8)}},
			"list 500 , watch 2 false, watch 8 false"},
		{0, []watch.Event{{Type: watch.Added, Object: obj("a", 8)}}, "list 500 , watch 2 false, watch 8 false"},
		{0, nil, "list 500 , watch 2 false, watch 2 false"},
		{Forever, []watch.Event{bookmark}, "list 500 , watch 2 false"},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls, _ := reflect(t, 5*time.Minute, Config[object]{Pages: true, WatchTimeout: tt.timeout}, page,
				stream(false, tt.events...), stream(false))
			assert.Equalf(t, calls, tt.calls, "%d events", len(tt.events))
		})
	}
}

// A streaming list that stalls before its end is replaced by a list. One that delivers slowly, and
// a watch after its end, continue.
func TestStreamingListThatStalls(t *testing.T) {
	for name, tt := range map[string]struct {
		pauses []time.Duration // before the events; the last one is the end of the initial state
		calls  string
	}{
		"at once": {[]time.Duration{40 * time.Second}, "watch  true, list 500 , watch 2 false"},
		"later":   {[]time.Duration{20 * time.Second, 40 * time.Second}, "watch  true, list 500 , watch 2 false"},
		"slow":    {[]time.Duration{20 * time.Second, 20 * time.Second, 20 * time.Second}, "watch  true"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := watch.NewFakeWithChanSize(len(tt.pauses), false)
				go func() {
					for n, pause := range tt.pauses {
						time.Sleep(pause)
						if e := initialEnd(9); n == len(tt.pauses)-1 && !w.IsStopped() {
							w.Action(e.Type, e.Object)
						} else if !w.IsStopped() {
							w.Add(obj(fmt.Sprint("a", n), n+1))
						}
					}
				}()
				calls, _ := reflect(t, 2*time.Minute, Config[object]{}, w, Page[object]{Version: "2"}, stream(false))
				assert.Equal(t, calls, tt.calls)
			})
		})
	}
}

// versioned is a Source that returns its version.
type versioned struct {
	*script
	version string
}

func (v versioned) Version(context.Context) (string, error) {
	v.calls = append(v.calls, "version")
	return v.version, nil
}

// After a watch has failed or was silent, the collection is read again if the server has an older
// state than the copy, because it was restored from a backup.
func TestRestoredServer(t *testing.T) {
	bookmark := watch.Event{Type: watch.Bookmark, Object: obj("", 7)}
	page := Page[object]{Version: "2"}
	for name, tt := range map[string]struct {
		lasts   time.Duration
		version string
		answers func() []any // made inside the bubble
		calls   string
	}{
		"older, failed": {time.Minute, "5", func() []any {
			return []any{page, stream(true, bookmark), errServer, page, stream(false)}
		},
			"list 500 , watch 2 false, watch 7 false, version, list 500 , watch 2 false"},
		"older, silent": {5 * time.Minute, "5", func() []any {
			return []any{page, stream(false, bookmark), page, stream(false)}
		},
			"list 500 , watch 2 false, version, list 500 , watch 2 false"},
		"newer": {time.Minute, "8", func() []any {
			return []any{page, stream(true, bookmark), errServer, stream(false)}
		},
			"list 500 , watch 2 false, watch 7 false, version, watch 7 false"},
		"not a number": {time.Minute, "x", func() []any {
			return []any{page, stream(true, bookmark), errServer, stream(false)}
		},
			"list 500 , watch 2 false, watch 7 false, version, watch 7 false"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := versioned{&script{answers: tt.answers()}, tt.version}
				ctx, cancel := context.WithTimeout(t.Context(), tt.lasts)
				defer cancel()
				_ = New(Config[object]{Source: source, Sink: &sink{}, Pages: true}).Run(ctx)
				calls := strings.Join(source.calls, ", ")
				assert.Equal(t, calls, tt.calls)
			})
		})
	}
}

// Renew reopens a watch, or reads the collection again if the server has an older state.
func TestRenew(t *testing.T) {
	page := Page[object]{Version: "2"}
	for version, want := range map[string]string{
		"2": "list 500 , watch 2 false, version, watch 2 false",
		"1": "list 500 , watch 2 false, version, list 500 , watch 2 false",
	} {
		synctest.Test(t, func(t *testing.T) {
			answers := []any{page, stream(false)}
			if version == "1" {
				answers = append(answers, page)
			}
			source := versioned{&script{answers: append(answers, stream(false))}, version}
			renew := make(chan struct{}, 1)
			time.AfterFunc(time.Second, func() { renew <- struct{}{} })
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_ = New(Config[object]{Source: source, Sink: &sink{}, Pages: true, Renew: renew}).Run(ctx)
			assert.Equal(t, strings.Join(source.calls, ", "), want)
		})
	}
}

// Requests to a server that is down become rarer, and there is always a pause between them.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failures []error
		var times []time.Time
		cfg := Config[object]{Failed: func(err error) {
			failures, times = append(failures, err), append(times, time.Now())
		}}
		calls, _ := reflect(t, time.Hour, cfg)
		if n := len(failures); n < 100 || n > 500 { // 240 with a mean delay of 15 seconds
			t.Errorf("%d attempts in an hour", n)
		}
		if n := strings.Count(calls, "watch") + strings.Count(calls, "list"); n != len(failures) {
			t.Errorf("%d calls, %d failures reported", n, len(failures))
		}
		for n := range times[1:] {
			if d := times[n+1].Sub(times[n]); d == 0 || d > maxBackoff+time.Millisecond {
				t.Errorf("waited %v after failure %d", d, n+1)
			}
		}
		if !errors.Is(failures[0], errServer) || !strings.HasPrefix(failures[0].Error(), "watch: ") {
			t.Errorf("reported %v", failures[0])
		}
	})
	for failures, most := range map[int]time.Duration{0: minBackoff, 1: minBackoff, 2: time.Second, 6: 16 * time.Second,
		7: maxBackoff, 1000: maxBackoff} {
		for range 100 {
			if d := backoff(failures); d <= 0 || d > most+time.Millisecond {
				t.Errorf("backoff(%d) = %v", failures, d)
			}
		}
	}
}

// A refused watch is reported at once and is requested again within seconds.
func TestRetryAfterOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var failed time.Duration
		cfg := Config[object]{Failed: func(error) { failed = time.Since(begin) }}
		calls, lines := reflect(t, 8*time.Second, cfg, errBusy, stream(false, initialEnd(1)))
		if failed != 0 || calls != "watch  true, watch  true" || lines != "= at 1" {
			t.Errorf("failed after %v; %s; %s", failed, calls, lines)
		}
	})
}
