package sample

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/transport"
)

// CountConflicts counts answers with 409.
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

// QueueRate is how many times a second so many workers can take a key out of a queue, be done with it, and add it again. A thousand keys
// are in the queue, each with one of four priorities.
func QueueRate(workers int, add func(key string, priority int), takeAndDone func() string) float64 {
	const keys, warm, long = 1000, 100 * time.Millisecond, time.Second
	for n := range keys {
		add(fmt.Sprint("namespace/name-", n), n%4)
	}
	var turns atomic.Int64
	var stop atomic.Bool
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for !stop.Load() {
				for n := range 64 {
					add(takeAndDone(), n%4)
				}
				turns.Add(64)
			}
		})
	}
	time.Sleep(warm)
	before, begin := turns.Load(), time.Now()
	time.Sleep(long)
	rate := float64(turns.Load()-before) / time.Since(begin).Seconds()
	stop.Store(true)
	all.Wait()
	return rate
}
