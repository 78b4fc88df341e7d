package turn

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// compute is a computation that pauses in the middle.
func compute(ctx context.Context, ts Turns, before, pause, after time.Duration) error {
	t, err := ts.Take(ctx)
	if err != nil {
		return err
	}
	defer t.End()
	time.Sleep(before)
	if pause > 0 {
		resume := Pause(Context(ctx, t))
		time.Sleep(pause)
		resume()
	}
	time.Sleep(after)
	return nil
}

func TestTurns(t *testing.T) {
	for _, test := range []struct {
		name                 string
		turns, computations  int
		before, pause, after time.Duration
		want                 time.Duration
	}{
		{"one after the other", 1, 5, time.Second, 0, 0, 5 * time.Second},
		{"two at once", 2, 6, time.Second, 0, 0, 3 * time.Second},
		{"pauses overlap", 1, 5, time.Second, time.Minute, time.Second, time.Minute + 6*time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := New(test.turns)
				begin := time.Now()
				done := make(chan error)
				for range test.computations {
					go func() { done <- compute(t.Context(), ts, test.before, test.pause, test.after) }()
				}
				for range test.computations {
					assert.NoError(t, <-done)
				}
				assert.Equalf(t, time.Since(begin), test.want, "took")
			})
		})
	}
}

// A computation with several goroutines has its turn again when the last of their pauses ends. A
// turn that ends during a pause is not taken again.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(1)
		mine, err := ts.Take(t.Context())
		require.NoError(t, err)
		ctx := Context(t.Context(), mine)
		first, second := Pause(ctx), Pause(ctx)
		other, err := ts.Take(t.Context())
		require.NoError(t, err)
		first() // does not wait for a turn
		go func() {
			time.Sleep(time.Second)
			other.End()
		}()
		begin := time.Now()
		second()
		if took := time.Since(begin); took != time.Second {
			t.Errorf("the last pause ended after %s, want 1s", took)
		}
		resume := Pause(ctx)
		mine.End()
		resume()
		late, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		other, err = ts.Take(late)
		require.NoErrorf(t, err, "the turn is still taken")
		_, err = ts.Take(late)
		assert.ErrorIsf(t, err, context.DeadlineExceeded, "two computations have the only turn")
	})
}

// A computation whose context ends does not wait for a turn again, and does not give back a turn
// that it does not have.
func TestResumeAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(1)
		mine, _ := ts.Take(t.Context())
		ctx, cancel := context.WithTimeout(Context(t.Context(), mine), time.Minute)
		defer cancel()
		resume := Pause(ctx)
		other, _ := ts.Take(t.Context())
		resume()
		mine.End()
		other.End()
		assert.Equalf(t, len(ts.taken), 0, "a turn is lost")
		Pause(t.Context())() // without a turn
		(*Turn)(nil).End()
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// While a request waits for its response, another computation has the turn.
func TestTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := New(1)
		mine, _ := ts.Take(t.Context())
		transport := Transport{roundTripper(func(req *http.Request) (*http.Response, error) {
			late, cancel := context.WithTimeout(req.Context(), time.Minute)
			defer cancel()
			other, err := ts.Take(late)
			assert.NoErrorf(t, err, "another computation")
			other.End()
			return &http.Response{}, nil
		})}
		req, err := http.NewRequestWithContext(Context(t.Context(), mine), http.MethodPost, "https://review", nil)
		require.NoError(t, err)
		_, err = transport.RoundTrip(req)
		require.NoError(t, err)
		assert.Equalf(t, len(ts.taken), 1, "the turn is lost after the response")
		mine.End()
	})
}
