package workqueue

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Limiter says how long a key has to wait before it is tried again. Implementations are safe for concurrent use.
type Limiter[T comparable] interface {
	// When counts a further try of the key and returns the time to wait before it.
	When(key T) time.Duration
	// Forget ends the account of a key.
	Forget(key T)
	// NumRequeues is how often When was called for the key since it was forgotten.
	NumRequeues(key T) int
}

// DefaultLimiter backs off per key from 5 ms, doubling up to 1000 s, and lets all keys together pass ten times a second after a
// burst of one hundred. These are the values of Kubernetes' own controllers.
func DefaultLimiter[T comparable]() Limiter[T] {
	return MaxOf[T]{
		&Exponential[T]{Base: 5 * time.Millisecond, Max: 1000 * time.Second},
		&Bucket[T]{Every: 100 * time.Millisecond, Burst: 100},
	}
}

// Exponential doubles the time of each further try of a key, from Base up to Max.
type Exponential[T comparable] struct {
	Base, Max time.Duration

	mu    sync.Mutex
	tries map[T]int
}

// When returns Base times two to the number of earlier tries, at most Max.
func (l *Exponential[T]) When(key T) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tries == nil {
		l.tries = make(map[T]int)
	}
	n := l.tries[key]
	l.tries[key] = n + 1
	// Base << n would not fit when Base exceeds Max >> n.
	if n > 62 || l.Base > l.Max>>n {
		return l.Max
	}
	return l.Base << n
}

// Forget begins anew for a key.
func (l *Exponential[T]) Forget(key T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tries, key)
}

// NumRequeues is the number of tries of a key.
func (l *Exponential[T]) NumRequeues(key T) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tries[key]
}

// Bucket lets all keys together pass once per Every, and Burst more when it was idle. It keeps no account per key.
type Bucket[T comparable] struct {
	Every time.Duration
	Burst int

	mu   sync.Mutex
	next time.Time // when the token of the next caller would come if there were no burst
}

// When takes a token and returns the time until it is there.
func (l *Bucket[T]) When(T) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.next.Before(now) {
		l.next = now
	}
	// A bucket of n tokens is one whose caller may be n-1 tokens early.
	wait := l.next.Sub(now) - time.Duration(max(l.Burst, 1)-1)*l.Every
	l.next = l.next.Add(l.Every)
	return max(wait, 0)
}

// Forget does nothing.
func (l *Bucket[T]) Forget(T) {}

// NumRequeues is always zero.
func (l *Bucket[T]) NumRequeues(T) int { return 0 }

// MaxOf asks several limiters and takes the longest time and the greatest count.
type MaxOf[T comparable] []Limiter[T]

// When asks all of them.
func (l MaxOf[T]) When(key T) time.Duration {
	var d time.Duration
	for _, each := range l {
		d = max(d, each.When(key))
	}
	return d
}

// Forget tells all of them.
func (l MaxOf[T]) Forget(key T) {
	for _, each := range l {
		each.Forget(key)
	}
}

// NumRequeues is the greatest of theirs.
func (l MaxOf[T]) NumRequeues(key T) int {
	n := 0
	for _, each := range l {
		n = max(n, each.NumRequeues(key))
	}
	return n
}

// Jitter lengthens the times of a limiter by a random part of up to Fraction of them, so that what failed together is not tried again
// together.
type Jitter[T comparable] struct {
	Limiter[T]
	Fraction float64
}

// When is the limiter's time and a random part.
func (l Jitter[T]) When(key T) time.Duration {
	d := l.Limiter.When(key)
	return d + time.Duration(float64(d)*l.Fraction*rand.Float64())
}
