package workqueue_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/operator/workqueue"
)

// goroutines counts the goroutines. runtime.NumGoroutine may still count one that has ended.
func goroutines() int {
	buf := make([]byte, 1<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "\n\ngoroutine ") + 1
}

// Goroutines exist only while keys are ready, and there are at most n of them.
func TestStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.New(workqueue.Config[string, struct{}]{})
		q.Add("early", struct{}{})
		var mu sync.Mutex // guards the following variables
		var running, most int
		var done []string
		locked := func(f func()) { mu.Lock(); defer mu.Unlock(); f() }
		processed := func() []string { mu.Lock(); defer mu.Unlock(); return slices.Clone(done) }
		before := goroutines()
		stop := q.Start(3, func(item workqueue.Item[string, struct{}]) {
			locked(func() { running++; most = max(most, running) })
			time.Sleep(time.Second)
			locked(func() { running--; done = append(done, item.Key) })
			if item.Key == "again" {
				q.AddAfter("later", struct{}{}, time.Minute)
			}
		})
		for i := range 7 {
			q.Add(fmt.Sprint(i), struct{}{})
		}
		q.Add("again", struct{}{})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		locked(func() {
			if len(done) != 9 || most != 3 {
				t.Errorf("%v are done, by %d goroutines at once", done, most)
			}
		})
		if n := goroutines() - before; n > 0 {
			t.Errorf("%d goroutines wait", n)
		}
		time.Sleep(2 * time.Minute)
		if !slices.Contains(processed(), "later") {
			t.Error("a key that became due was not processed")
		}

		q.Add("last", struct{}{})
		synctest.Wait()
		for i := range 7 {
			q.Add(fmt.Sprint(i), struct{}{})
		}
		synctest.Wait()
		locked(func() { done = nil })
		stop()
		locked(func() {
			if running != 0 || len(done) != 3 {
				t.Errorf("stopped while %d run; %v were running", running, done)
			}
		})
		q.Add("after", struct{}{})
		time.Sleep(time.Minute)
		if done := processed(); len(done) != 3 || q.Len() != 6 {
			t.Errorf("%v are done after the stop, %d are left", done, q.Len())
		}
		q.ShutDown()
	})
}
