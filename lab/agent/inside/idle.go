package inside

import (
	"runtime"
	"runtime/metrics"
	"testing/synctest"
	"time"
)

// idle waits until no goroutine can run.
//
// synctest.Wait does the same, but returns only when all other goroutines are durably blocked. One
// that waits for a lock is not, and the holder of the lock may wait for the response to a request
// that is sent only after Wait. So idle uses the counters of Go's scheduler: the process has one
// processor, so if no goroutine is runnable and none is in a system call, the others are blocked.
type idle struct {
	samples []metrics.Sample
	base    uint64 // goroutines that stay in system calls, such as the one that receives signals
	without bool   // Go before 1.26, which has no such counters
}

// spins is how often wait yields before it pauses for goroutines in system calls. After each pause
// it checks whether such goroutines are blocked, and after as many checks as enough in a row that
// say so, they count as blocked. A time limit would not do: on a busy machine, a thread may wait
// for a processor during a write to a log.
const (
	spins  = 20
	enough = 5
)

// start counts the goroutines that stay in system calls. It is called before the operator's main
// function.
func (i *idle) start() {
	i.samples = []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"},
		{Name: "/sched/goroutines/not-in-go:goroutines"}}
	metrics.Read(i.samples)
	if i.without = i.samples[0].Value.Kind() != metrics.KindUint64; i.without {
		return
	}
	for n := 0; n < spins; n++ {
		runtime.Gosched()
	}
	metrics.Read(i.samples)
	i.base = i.samples[1].Value.Uint64()
}

func (i *idle) wait() {
	if i.without {
		synctest.Wait()
		return
	}
	for n, blocked := 0, 0; ; n++ {
		runtime.Gosched()
		metrics.Read(i.samples)
		runnable, outside := i.samples[0].Value.Uint64(), i.samples[1].Value.Uint64()
		switch {
		case runnable > 0:
			n, blocked = 0, 0
		case outside <= i.base:
			i.base = outside
			return
		case blocked >= enough:
			i.base = outside
			return
		case n >= spins:
			pause()
			if blocked++; !threadsSleep(n) {
				blocked = 0
			}
		}
	}
}

// pauseTime is how long wait sleeps in real time.
const pauseTime = 100 * time.Microsecond
