package workqueue

import (
	"testing"
	"testing/synctest"
	"time"
)

// MACH-06
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
	if last != l.Max {
		t.Errorf("the last delay is %v, want %v", last, l.Max)
	}
}

// MACH-06
func TestBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &Bucket[string]{Every: time.Second, Burst: 3}
		for i, want := range []int{0, 0, 0, 1, 2} {
			if got := l.When("a"); got != time.Duration(want)*time.Second {
				t.Errorf("call %d waits %v, want %v", i, got, time.Duration(want)*time.Second)
			}
		}
		time.Sleep(3 * time.Second) // repays two tokens, and adds one
		for i, want := range []int{0, 1} {
			if got := l.When("a"); got != time.Duration(want)*time.Second {
				t.Errorf("later call %d waits %v, want %v", i, got, time.Duration(want)*time.Second)
			}
		}
	})
}

// MACH-06
func TestMaxOfAndJitter(t *testing.T) {
	l := MaxOf[string]{
		&Exponential[string]{Base: time.Second, Max: time.Hour},
		&Bucket[string]{Every: 3 * time.Second, Burst: 1},
	}
	synctest.Test(t, func(t *testing.T) {
		for i, want := range []int{1, 3, 6, 9, 16} {
			if got := l.When("a"); got != time.Duration(want)*time.Second {
				t.Errorf("call %d waits %v, want %v", i, got, time.Duration(want)*time.Second)
			}
		}
		if n := l.NumRequeues("a"); n != 5 {
			t.Errorf("%d requeues", n)
		}
		l.Forget("a")
		if n := l.NumRequeues("a"); n != 0 {
			t.Errorf("%d requeues after Forget", n)
		}
	})
	j := Jitter[string]{&Exponential[string]{Base: time.Second, Max: time.Second}, 0.5}
	for range 100 {
		if d := j.When("a"); d < time.Second || d > 1500*time.Millisecond {
			t.Fatalf("waits %v", d)
		}
	}
}
