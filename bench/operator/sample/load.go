package sample

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/transport"
)

// CountConflicts counts responses with 409.
func CountConflicts(count *atomic.Int64) transport.WrapperFunc {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if err == nil && resp.StatusCode == http.StatusConflict {
				count.Add(1)
			}
			return resp, err
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// QueueRate returns how many keys per second pass through a queue. One goroutine adds the keys, as
// a watch does, with one of four priorities. Each worker processes one key at a time. All keys of a
// round are distinct, and a round ends before the next one starts, so that the queue merges no
// keys.
func QueueRate(workers int, add func(key string, priority int), takeAndDone func() bool) float64 {
	const keys, warm, long = 10000, 2, time.Second
	names := make([]string, keys)
	for n := range names {
		names[n] = fmt.Sprint("namespace/name-", n)
	}
	var left sync.WaitGroup
	for range workers {
		go func() {
			for takeAndDone() {
				left.Done()
			}
		}()
	}
	rounds, begin := 0, time.Now()
	for ; rounds < warm || time.Since(begin) < long; rounds++ {
		if rounds == warm {
			begin = time.Now()
		}
		left.Add(keys)
		for n, name := range names {
			add(name, n%4)
		}
		left.Wait()
	}
	return float64((rounds-warm)*keys) / time.Since(begin).Seconds()
}
