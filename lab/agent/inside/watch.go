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

// StuckVariable is the environment variable that replaces this time, for tests.
const StuckVariable = "KELSON_AGENT_STUCK"

// StandsStill says why a process has ended with StuckCode.
const StandsStill = "the operator stands still: virtual time can't pass while a goroutine waits for a lock, " +
	"a socket, or a channel that was made before the main function"

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
	if d, err := time.ParseDuration(os.Getenv(StuckVariable)); err == nil {
		limit = d
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
			buffer := make([]byte, 4<<20)
			fail(StuckCode, "%s:\n\n%s", StandsStill, Blocked(string(buffer[:runtime.Stack(buffer, true)])))
		}
	}
}

// Blocked returns the goroutines of the bubble that are not durably blocked, of the stacks of all
// goroutines.
func Blocked(stacks string) string {
	const most = 4
	var found []string
	for _, stack := range strings.Split(stacks, "\n\n") {
		line := stack
		if end := strings.IndexByte(stack, '\n'); end >= 0 {
			line = stack[:end]
		}
		if strings.HasPrefix(line, "goroutine ") && strings.Contains(line, "synctest bubble") &&
			!strings.Contains(line, "(durable)") && !strings.Contains(line, "[synctest") && len(found) < most {
			found = append(found, strings.TrimSpace(stack))
		}
	}
	return strings.Join(found, "\n\n")
}
