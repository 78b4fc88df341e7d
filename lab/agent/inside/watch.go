package inside

import (
	"os"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"time"
)

// stuckAfter is the real time after which watch reports that virtual time does not pass, and
// stuckAllowed the same if the operator may connect to other hosts.
const (
	stuckAfter   = 10 * time.Second
	stuckAllowed = 2 * time.Minute
)

func (c *connection) begin() {
	atomic.AddUint64(&c.turns, 1)
	atomic.StoreUint32(&c.waiting, 1)
}

func (c *connection) end() { atomic.StoreUint32(&c.waiting, 0) }

// watch ends the process if its virtual time does not pass although no goroutine can run: at least
// one waits for something outside of the bubble, such as a lock whose owner waits for a timer, or a
// socket. It runs in real time.
func (c *connection) watch() {
	limit := stuckAfter
	if os.Getenv(AllowVariable) != "" {
		limit = stuckAllowed
	}
	last, since := uint64(0), time.Now()
	samples := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	for {
		time.Sleep(time.Second)
		metrics.Read(samples)
		busy := samples[0].Value.Kind() == metrics.KindUint64 && samples[0].Value.Uint64() > 0
		turn := atomic.LoadUint64(&c.turns)
		if turn != last || busy || atomic.LoadUint32(&c.waiting) == 0 {
			last, since = turn, time.Now()
			continue
		}
		if time.Since(since) > limit {
			fail(StuckCode, "virtual time can't pass, because goroutines wait for locks, sockets or channels that do not belong to it:\n%s", blocked())
		}
	}
}

// blocked returns the stacks of the goroutines of the bubble that are not durably blocked.
func blocked() string {
	const most = 4
	buffer := make([]byte, 4<<20)
	buffer = buffer[:runtime.Stack(buffer, true)]
	var found []string
	for _, stack := range strings.Split(string(buffer), "\n\n") {
		line := stack
		if end := strings.IndexByte(stack, '\n'); end >= 0 {
			line = stack[:end]
		}
		if strings.Contains(line, "synctest bubble") && !strings.Contains(line, "(durable)") &&
			!strings.Contains(line, "[synctest") && len(found) < most {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}
