package workqueue

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// The delay never decreases and ends at the maximum.
func TestExponentialDoesNotOverflow(t *testing.T) {
	l := &Exponential[string]{Base: time.Millisecond, Max: 1000 * time.Second}
	last := time.Duration(0)
	for range 200 {
		d := l.When("a")
		if d < last || d > l.Max {
			t.Fatalf("%v after %v", d, last)
		}
		last = d
	}
	assert.Equalf(t, last, l.Max, "the last delay")
}

// Limiters with unusual settings neither overflow nor return no delay.
func TestExtremeLimiters(t *testing.T) {
	zero := &Exponential[string]{}
	if first, second := zero.When("a"), zero.When("a"); first != 5*time.Millisecond || second != 10*time.Millisecond {
		t.Errorf("without settings: %v, %v", first, second)
	}
	if d := (&Exponential[string]{Base: time.Hour, Max: time.Second}).When("a"); d != time.Second {
		t.Errorf("the delay %v is longer than the maximum", d)
	}
	fixed := &Exponential[string]{Base: time.Hour, Max: time.Hour}
	for fraction, most := range map[float64]time.Duration{1e30: math.MaxInt64, math.Inf(1): math.MaxInt64,
		0: time.Hour} {
		for range 100 {
			if d := (Jitter[string]{fixed, fraction}).When("a"); d < time.Hour || d > most {
				t.Fatalf("fraction %v: %v", fraction, d)
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		unlimited := &Bucket[string]{Every: 100 * time.Millisecond, Burst: math.MaxInt}
		never := &Bucket[string]{Every: math.MaxInt64}
		for n := range 1000 {
			require.Equalf(t, unlimited.When("a"), 0, "call %d with an unlimited burst waits", n)
			if d := never.When("a"); n > 0 && d < 100*365*24*time.Hour {
				t.Fatalf("call %d with one token a century waits %v", n, d)
			}
			require.Equalf(t, (&Bucket[string]{}).When("a"), 0, "a bucket without a rate waits")
		}
	})
}

// After the burst, each call waits for its token.
func TestBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Bucket[string]{Every: time.Second, Burst: 3}
		for i, want := range []int{0, 0, 0, 1, 2} {
			assert.Equalf(t, l.When("a"), time.Duration(want)*time.Second, "call %d waits", i)
		}
		time.Sleep(3 * time.Second) // repays two tokens, and adds one
		for i, want := range []int{0, 1} {
			assert.Equalf(t, l.When("a"), time.Duration(want)*time.Second, "later call %d waits", i)
		}
	})
}

// MaxOf waits for the longest of its limiters. Jitter adds at most its fraction.
func TestMaxOfAndJitter(t *testing.T) {
	l := MaxOf[string]{
		&Exponential[string]{Base: time.Second, Max: time.Hour},
		&Bucket[string]{Every: 3 * time.Second, Burst: 1},
	}
	synctest.Test(t, func(t *testing.T) {
		for i, want := range []int{1, 3, 6, 9, 16} {
			assert.Equalf(t, l.When("a"), time.Duration(want)*time.Second, "call %d waits", i)
		}
		assert.Equalf(t, l.NumRequeues("a"), 5, "requeues")
		l.Forget("a")
		assert.Equalf(t, l.NumRequeues("a"), 0, "requeues after Forget")
	})
	j := Jitter[string]{&Exponential[string]{Base: time.Second, Max: time.Second}, 0.5}
	for range 100 {
		if d := j.When("a"); d < time.Second || d > 1500*time.Millisecond {
			t.Fatalf("waits %v", d)
		}
	}
}
