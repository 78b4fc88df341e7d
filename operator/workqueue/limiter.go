package workqueue

import (
	"cmp"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// Limiter determines the delay before a key is retried. Implementations must be safe for concurrent
// use.
type Limiter[T comparable] interface {
	// When counts a retry of the key and returns the delay before it.
	When(key T) time.Duration
	// Forget resets the state of a key.
	Forget(key T)
	// NumRequeues returns the number of calls of When for the key since the last Forget.
	NumRequeues(key T) int
}

// DefaultLimiter returns a limiter with exponential backoff per key from 5 ms to 1000 s, and an
// overall limit of ten keys per second with bursts of 100. These are the values of Kubernetes' own
// controllers.
func DefaultLimiter[T comparable]() Limiter[T] {
	return MaxOf[T]{
		&Exponential[T]{},
		&Bucket[T]{Every: 100 * time.Millisecond, Burst: 100},
	}
}

// Exponential doubles the delay of a key with each retry, from Base up to Max. Base is 5 ms and Max
// 1000 s if zero.
type Exponential[T comparable] struct {
	Base, Max time.Duration

	mu    sync.Mutex
	tries map[T]int
}

// When returns Base times two to the power of the number of earlier retries, at most Max.
func (l *Exponential[T]) When(key T) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tries == nil {
		l.tries = make(map[T]int)
	}
	n := l.tries[key]
	l.tries[key] = n + 1
	base, most := cmp.Or(l.Base, 5*time.Millisecond), cmp.Or(l.Max, 1000*time.Second)
	// base << n would overflow if base exceeds most >> n.
	if n > 62 || base > most>>n {
		return most
	}
	return base << n
}

// Forget resets the delay of a key.
func (l *Exponential[T]) Forget(key T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tries, key)
}

// NumRequeues returns the number of retries of a key.
func (l *Exponential[T]) NumRequeues(key T) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tries[key]
}

// Bucket is a token bucket for all keys together, with one token per Every and bursts of Burst. It
// has no state per key.
type Bucket[T comparable] struct {
	Every time.Duration
	Burst int

	mu   sync.Mutex
	next time.Time // when the next token would be available without a burst
}

// When takes a token and returns the time until it is available.
func (l *Bucket[T]) When(T) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.next.Before(now) {
		l.next = now
	}
	if l.Every <= 0 {
		return 0
	}
	// In a bucket of n tokens, a caller may be n-1 tokens early.
	early := min(int64(max(l.Burst, 1)-1), math.MaxInt64/int64(l.Every)) * int64(l.Every)
	wait := l.next.Sub(now) - time.Duration(early)
	l.next = l.next.Add(l.Every)
	return max(wait, 0)
}

// Forget does nothing.
func (l *Bucket[T]) Forget(T) {}

// NumRequeues always returns zero.
func (l *Bucket[T]) NumRequeues(T) int { return 0 }

// MaxOf combines limiters, and returns the longest delay and the greatest count.
type MaxOf[T comparable] []Limiter[T]

// When calls all limiters.
func (l MaxOf[T]) When(key T) time.Duration {
	var d time.Duration
	for _, each := range l {
		d = max(d, each.When(key))
	}
	return d
}

// Forget calls all limiters.
func (l MaxOf[T]) Forget(key T) {
	for _, each := range l {
		each.Forget(key)
	}
}

// NumRequeues returns the greatest count.
func (l MaxOf[T]) NumRequeues(key T) int {
	n := 0
	for _, each := range l {
		n = max(n, each.NumRequeues(key))
	}
	return n
}

// Jitter increases the delays of a limiter by a random part of up to Fraction, so that keys that
// failed together are not retried together.
type Jitter[T comparable] struct {
	Limiter[T]
	Fraction float64
}

// When returns the limiter's delay plus a random part.
func (l Jitter[T]) When(key T) time.Duration {
	d := l.Limiter.When(key)
	longest := math.MaxInt64 - d
	if part := float64(d) * l.Fraction * rand.Float64(); part < float64(longest) {
		return d + time.Duration(part)
	}
	return d + longest
}
