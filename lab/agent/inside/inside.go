// Package inside is the part of the agent lane that runs in the operator's process: O in the
// documentation of package agent, which describes the protocol. It is embedded in kelson and
// compiled with the operator, by the operator's Go version and with its language version. So it
// imports only the standard library, and uses no syntax that is newer than Go 1.18.
package inside

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// PipesVariable is the environment variable with the numbers of the file descriptors from which the
// process reads frames, and to which it writes them.
const PipesVariable = "KELSON_AGENT_PIPES"

// StuckCode is the exit code of a process whose time can't advance.
const StuckCode = 86

// Main runs the main function of the operator in a bubble, connected to the kelson process. It
// doesn't return. Without the environment variable it only calls main.
func Main(main func()) {
	var in, out int
	if n, err := fmt.Sscanf(os.Getenv(PipesVariable), "%d,%d", &in, &out); n != 2 || err != nil {
		main()
		os.Exit(0)
	}
	os.Unsetenv(PipesVariable)
	// The order of goroutines must not depend on the machine.
	runtime.GOMAXPROCS(1)
	// The goroutine that receives signals starts at the first call of Notify. In the bubble, it
	// would stop the time.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	signal.Stop(signals)
	agent.in, agent.out = pipe{in}, pipe{out}
	isolate()
	go agent.watch()
	InTest(func(t *testing.T) {
		synctest.Test(t, func(*testing.T) { agent.loop(main) })
	})
}

// Kubeconfig returns the kubeconfig of the control plane.
func Kubeconfig() string { return os.Getenv("KUBECONFIG") }

// Namespace returns the namespace of the operator's Pod.
func Namespace() string { return orDefault(os.Getenv("POD_NAMESPACE"), "default") }

// ReadFile replaces os.ReadFile in files of the operator that name the file with the namespace of
// its Pod.
func ReadFile(name string) ([]byte, error) {
	if name == "/var/run/secrets/kubernetes.io/serviceaccount/namespace" {
		return []byte(Namespace()), nil
	}
	return os.ReadFile(name)
}

// InTest calls f in a test, without the flags of package testing and the arguments of the process.
// When f returns, the process ends.
func InTest(f func(*testing.T)) {
	flags, args := flag.CommandLine, os.Args
	flag.CommandLine = flag.NewFlagSet(args[0], flag.ContinueOnError)
	os.Args = args[:1]
	// In a test program, package testing has parsed its flags already, and would create the log of
	// the files that tests read a second time while f begins. At the end it completes the log.
	// Without either, the go command could not keep results of tests.
	restore := func() {}
	if log := flags.Lookup("test.testlogfile"); log != nil {
		name := log.Value.String()
		restore = func() { _ = log.Value.Set(name) } // a string accepts every text
		_ = log.Value.Set("")
	}
	testing.Main(func(string, string) (bool, error) {
		return true, nil
	}, []testing.InternalTest{{Name: "operator", F: func(t *testing.T) {
		flag.CommandLine, os.Args = flags, args
		restore()
		f(t)
	}}}, nil, nil)
}

// agent is the connection to the kelson process.
var agent = &connection{streams: map[uint32]*stream{}, listeners: map[int]*listener{},
	leases: leases{byPath: map[string]*lease{}}}

// connection is one end of the protocol. The goroutine of loop does all input and output.
type connection struct {
	in, out pipe
	buffer  []byte // what was read and not yet taken
	read    []byte // for reading

	mu        sync.Mutex
	queue     []byte // encoded frames that wait
	wake      chan struct{}
	last      uint32 // ID of a request
	streams   map[uint32]*stream
	listeners map[int]*listener
	port      int // the last one that was chosen

	clock  *Clock // nil if the version of Go is not known
	idle   idle
	leases leases
	// turns counts the times that loop has waited for virtual time, and waiting is 1 meanwhile.
	// They are for watch.
	turns   uint64
	waiting uint32
}

// loop takes batches of frames, lets the operator run, and sends its frames. See step 2 of the
// protocol.
func (c *connection) loop(main func()) {
	c.mu.Lock()
	c.wake = make(chan struct{}, 1)
	c.mu.Unlock()
	c.clock, _ = NewClock() // without it, Idle has no next time
	c.idle.start()
	started := false
	var batch []Frame
	for {
		times, err := c.receive(&batch)
		if err != nil {
			os.Exit(0) // the kelson process has ended or no longer needs this one
		}
		c.leases.allow(times.OwnLeases)
		c.sleepUntil(times.Now)
		for _, f := range batch {
			c.deliver(f)
		}
		if !started {
			started = true
			seed(times.Process)
			go func() {
				main()
				os.Exit(0)
			}()
		}
		c.idle.wait()
		for now() < times.Floor {
			c.sleepUntil(times.Floor)
			c.idle.wait()
		}
		for now() < times.Until && !c.queued() {
			c.sleep(time.Duration(times.Until - now()))
			c.idle.wait()
		}
		c.send()
	}
}

func now() int64 { return time.Now().UnixNano() }

func (c *connection) sleepUntil(t int64) {
	c.begin()
	defer c.end()
	if d := t - now(); d > 0 {
		time.Sleep(time.Duration(d))
	}
}

// sleep waits until a frame is queued, or d has passed.
func (c *connection) sleep(d time.Duration) {
	c.begin()
	defer c.end()
	timer := time.NewTimer(d)
	select {
	case <-c.wake:
	case <-timer.C:
	}
	timer.Stop()
}

func (c *connection) queued() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue) > 0
}

// enqueue queues a frame. The caller must hold the lock.
func (c *connection) enqueue(f Frame) {
	c.queue = AppendFrame(c.queue, f)
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *connection) enqueueNow(f Frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.enqueue(f)
}

// send writes the queued frames and an Idle frame.
func (c *connection) send() {
	c.mu.Lock()
	next := int64(0)
	if c.clock != nil {
		if t, ok := c.clock.Next(); ok {
			next = t.UnixNano()
		}
	}
	data := AppendFrame(c.queue, Frame{Kind: Idle, Content: AppendTime(AppendTime(nil, now()), next)})
	c.queue = nil
	select {
	case <-c.wake:
	default:
	}
	c.mu.Unlock()
	if err := c.out.write(data); err != nil {
		os.Exit(0)
	}
}

// receive reads a batch. The frames are valid until the next call.
func (c *connection) receive(batch *[]Frame) (Times, error) {
	*batch = (*batch)[:0]
	for {
		f, err := c.next()
		if err != nil {
			return Times{}, err
		}
		if f.Kind == Run {
			return ParseTimes(f.Content)
		}
		f.Content = append([]byte(nil), f.Content...)
		*batch = append(*batch, f)
	}
}

// next reads a frame. Its content is valid until the next call.
func (c *connection) next() (Frame, error) {
	for {
		f, size, err := NextFrame(c.buffer)
		if err != nil {
			return Frame{}, err
		}
		if size > 0 {
			c.buffer = c.buffer[size:]
			return f, nil
		}
		if c.read == nil {
			c.read = make([]byte, 64<<10)
		}
		n, err := c.in.read(c.read)
		if err != nil {
			return Frame{}, err
		}
		c.buffer = append(append([]byte(nil), c.buffer...), c.read[:n]...)
	}
}

// deliver passes a frame to the goroutine that waits for it.
func (c *connection) deliver(f Frame) {
	if f.Kind == Dial {
		port, _ := strconv.Atoi(string(f.Content))
		c.accept(f.ID, port)
		return
	}
	c.mu.Lock()
	s := c.streams[f.ID]
	c.mu.Unlock()
	if s != nil {
		s.take(f)
	}
}

// newStream registers a stream for the frames of a request or connection.
func (c *connection) newStream(id uint32) *stream {
	s := &stream{connection: c, id: id, head: make(chan result, 1)}
	s.cond = sync.NewCond(&s.mu)
	c.streams[id] = s
	return s
}

func (c *connection) forget(id uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.streams, id)
}

// fail ends the process with a message. The kelson process reports it.
func fail(code int, format string, args ...interface{}) {
	text := fmt.Sprintf(format, args...)
	fmt.Fprintln(os.Stderr, "kelson: "+strings.TrimSpace(text))
	os.Exit(code)
}
