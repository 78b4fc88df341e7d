package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"kelson.dev/apiserver/inprocess"
	"kelson.dev/lab/agent/inside"
)

// Link connects a process to the control plane. Its methods must be called in a bubble; Exchange
// and Close by one goroutine.
type Link struct {
	process *Process
	number  int64
	// requests serves the requests of the process. Each runs in a goroutine of its own.
	requests http.RoundTripper
	// calls serves the requests that must be answered without virtual time.
	calls http.RoundTripper
	// outside serves the requests to services outside of the cluster; nil for none.
	outside http.RoundTripper

	mu       sync.Mutex
	queue    []byte // encoded frames for the process
	open     map[uint32]context.CancelFunc
	conns    map[uint32]*conn
	last     uint32 // ID of a connection
	closed   bool
	started  bool
	external []External
	waits    string         // the stack of a goroutine that waits long for a lock
	next     int64          // of the last Exchange, as in inside.Idle
	arrived  []inside.Frame // of the last Exchange; used by its goroutine only
}

// firstConn is the ID of the first connection. Smaller ones are those of requests.
const firstConn = 1 << 31

// NewLink returns a link of a process. The process gets random numbers that depend only on number,
// its number among the processes of its run.
func NewLink(p *Process, number int, requests, calls http.RoundTripper) *Link {
	return &Link{process: p, number: int64(number), requests: requests, calls: calls,
		open: map[uint32]context.CancelFunc{}, conns: map[uint32]*conn{}, last: firstConn}
}

// SetOutside sets what serves the requests to the services of inside.ServicesVariable. It must be
// called before the first Exchange.
func (l *Link) SetOutside(services http.RoundTripper) { l.outside = services }

// Pending reports whether the process has not yet begun, or frames wait for Exchange.
func (l *Link) Pending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.started || len(l.queue) > 0
}

// External is an address outside of the cluster to which an operator tried to connect, such as
// "example.com:443", or a program that it tried to start, such as "the program git".
type External struct {
	Address  string
	Attempts int
	// Allowed says that inside.AllowVariable permitted the attempts. Others failed.
	Allowed bool
}

// External returns the attempts to connect to other systems and to start programs, in the order of
// the first attempts.
func (l *Link) External() []External {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.external)
}

// Waits returns the stack of a goroutine that has waited for a lock for minutes of virtual time; ""
// for none.
func (l *Link) Waits() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waits
}

// AddExternal adds the attempts of e to a list.
func AddExternal(all []External, e External) []External {
	for i := range all {
		if all[i].Address == e.Address && all[i].Allowed == e.Allowed {
			all[i].Attempts += e.Attempts
			return all
		}
	}
	return append(all, e)
}

// Exchange passes the waiting frames to the process at the current time, and lets it run: at least
// until floor, and then until it sends a frame, at most until the time until. It returns the time
// of the process, which is not before the current time. The caller must let time pass until then,
// and call Deliver. If ownLeases is true, no other client may read or write the Leases of the
// process, which then answers its renewals itself. An error means that the process has ended.
func (l *Link) Exchange(floor, until time.Time, ownLeases bool) (time.Time, error) {
	l.mu.Lock()
	l.started = true
	times := inside.Times{Now: time.Now().UnixNano(), Floor: floor.UnixNano(), Until: until.UnixNano(),
		Process: l.number, OwnLeases: ownLeases}
	batch := inside.AppendFrame(l.queue, inside.Frame{Kind: inside.Run, Content: times.Append(nil)})
	l.queue = nil
	l.mu.Unlock()
	if err := l.process.write(batch); err != nil {
		return time.Time{}, err
	}
	for {
		f, err := l.process.next()
		if err != nil {
			return time.Time{}, err
		}
		if f.Kind == inside.Idle {
			at, next, err := inside.ParseIdle(f.Content)
			l.next = next
			return time.Unix(0, at), err
		}
		if f.Kind != inside.Call {
			f.Content = bytes.Clone(f.Content)
			l.arrived = append(l.arrived, f)
			continue
		}
		if err := l.take(f); err != nil {
			return time.Time{}, err
		}
	}
}

// Next returns a time before which the process does nothing unless it gets frames: that of its next
// timer, or earlier. It returns false if that is not known, before the first Exchange or with
// another version of Go. The goroutine of Exchange may call it.
func (l *Link) Next() (time.Time, bool) { return time.Unix(0, l.next), l.next != 0 }

// Deliver begins the requests that the process has sent in the last Exchange, and passes the data
// of its connections on.
func (l *Link) Deliver() error {
	arrived := l.arrived
	l.arrived = nil
	for _, f := range arrived {
		if err := l.take(f); err != nil {
			return err
		}
	}
	return nil
}

// take takes a frame of the process.
func (l *Link) take(f inside.Frame) error {
	switch f.Kind {
	case inside.Request, inside.Call, inside.Outside:
		m, err := inside.ParseMessage(f.Content)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		to, url := l.requests, inprocess.URL+m.Target
		if f.Kind == inside.Outside {
			if to, url = l.outside, m.Target; to == nil {
				cancel()
				return fmt.Errorf("the operator's process sent a request to %s", url)
			}
		}
		r, err := newRequest(ctx, m, url)
		if err != nil {
			cancel()
			return err
		}
		if f.Kind == inside.Call {
			defer cancel()
			return l.call(f.ID, r)
		}
		l.mu.Lock()
		l.open[f.ID] = cancel
		l.mu.Unlock()
		go l.serve(f.ID, to, r)
	case inside.Cancel:
		l.mu.Lock()
		cancel := l.open[f.ID]
		l.mu.Unlock()
		if cancel != nil {
			cancel()
		}
	case inside.Data, inside.End:
		l.mu.Lock()
		c := l.conns[f.ID]
		l.mu.Unlock()
		if c != nil {
			c.take(f)
		}
	case inside.External:
		l.mu.Lock()
		defer l.mu.Unlock()
		if f.ID == inside.Waits {
			l.waits = string(f.Content)
			break
		}
		l.external = AddExternal(l.external, External{string(f.Content), 1, f.ID == inside.Allowed})
	default:
		return fmt.Errorf("the operator's process sent a frame of kind %d", f.Kind)
	}
	return nil
}

func newRequest(ctx context.Context, m *inside.Message, url string) (*http.Request, error) {
	var body io.Reader
	if len(m.Body) > 0 {
		body = bytes.NewReader(m.Body)
	}
	r, err := http.NewRequestWithContext(ctx, m.Method, url, body)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(m.Header); i += 2 {
		r.Header.Add(m.Header[i], m.Header[i+1])
	}
	r.Header.Del("Authorization")
	return r, nil
}

// serve serves a request with a transport.
func (l *Link) serve(id uint32, to http.RoundTripper, r *http.Request) {
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open[id]()
		delete(l.open, id)
	}()
	resp, err := to.RoundTrip(r)
	if err != nil {
		l.send(inside.Frame{Kind: inside.Failed, ID: id, Content: []byte(err.Error())})
		return
	}
	defer resp.Body.Close()
	l.send(inside.Frame{Kind: inside.Response, ID: id, Content: head(resp)})
	buffer := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buffer)
		if n > 0 {
			l.send(inside.Frame{Kind: inside.Data, ID: id, Content: buffer[:n]})
		}
		if err != nil {
			l.send(inside.Frame{Kind: inside.End, ID: id, Content: ending(err)})
			return
		}
	}
}

// head encodes the head of a response.
func head(resp *http.Response) []byte {
	m := inside.Message{Status: resp.StatusCode}
	names := make([]string, 0, len(resp.Header))
	for name := range resp.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range resp.Header[name] {
			m.Header = append(m.Header, name, value)
		}
	}
	return m.Append(nil)
}

func ending(err error) []byte {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return []byte(err.Error())
}

// call answers a Call at once.
func (l *Link) call(id uint32, r *http.Request) error {
	resp, err := l.calls.RoundTrip(r)
	if err != nil {
		return l.process.write(inside.AppendFrame(nil,
			inside.Frame{Kind: inside.Failed, ID: id, Content: []byte(err.Error())}))
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return l.process.write(inside.AppendFrame(nil,
			inside.Frame{Kind: inside.Failed, ID: id, Content: []byte(err.Error())}))
	}
	data := inside.AppendFrame(nil, inside.Frame{Kind: inside.Response, ID: id, Content: head(resp)})
	data = inside.AppendFrame(data, inside.Frame{Kind: inside.Data, ID: id, Content: body})
	return l.process.write(inside.AppendFrame(data, inside.Frame{Kind: inside.End, ID: id}))
}

// send queues a frame for the process.
func (l *Link) send(f inside.Frame) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.queue = inside.AppendFrame(l.queue, f)
	}
}

// Close cancels the requests of the process, ends its connections, and drops all later frames.
func (l *Link) Close() {
	l.mu.Lock()
	l.closed, l.queue = true, nil
	var cancels []context.CancelFunc
	for _, cancel := range l.open {
		cancels = append(cancels, cancel)
	}
	var conns []*conn
	for _, c := range l.conns {
		conns = append(conns, c)
	}
	l.mu.Unlock()
	for _, cancel := range cancels {
		cancel()
	}
	for _, c := range conns {
		c.far.Close()
	}
}

// conn is a connection of the control plane to a port of the process.
type conn struct {
	link *Link
	id   uint32
	far  net.Conn // this end of the pipe

	mu   sync.Mutex
	cond *sync.Cond
	data []byte // from the process, not yet read
	done bool
}

// Dial connects to a port of the process. If it does not listen, the connection ends at once.
func (l *Link) Dial(address string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if _, err := strconv.Atoi(port); err != nil {
		return nil, fmt.Errorf("connect to the operator at %s: %w", address, err)
	}
	near, far := net.Pipe()
	c := &conn{link: l, far: far}
	c.cond = sync.NewCond(&c.mu)
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, net.ErrClosed
	}
	l.last++
	c.id = l.last
	l.conns[c.id] = c
	l.mu.Unlock()
	l.send(inside.Frame{Kind: inside.Dial, ID: c.id, Content: []byte(port)})
	go c.receive()
	go c.pass()
	return near, nil
}

// take takes a frame of the process.
func (c *conn) take(f inside.Frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.data = append(c.data, f.Content...); f.Kind == inside.End {
		c.done = true
	}
	c.cond.Broadcast()
}

// receive passes the data of the process to the control plane.
func (c *conn) receive() {
	defer c.far.Close()
	for {
		c.mu.Lock()
		for len(c.data) == 0 && !c.done {
			c.cond.Wait()
		}
		data := c.data
		c.data = nil
		c.mu.Unlock()
		if len(data) == 0 {
			return
		}
		if _, err := c.far.Write(data); err != nil {
			return
		}
	}
}

// pass passes the data of the control plane to the process.
func (c *conn) pass() {
	buffer := make([]byte, 32<<10)
	for {
		n, err := c.far.Read(buffer)
		if n > 0 {
			c.link.send(inside.Frame{Kind: inside.Data, ID: c.id, Content: buffer[:n]})
		}
		if err != nil {
			break
		}
	}
	c.link.send(inside.Frame{Kind: inside.End, ID: c.id})
	c.link.mu.Lock()
	delete(c.link.conns, c.id)
	c.link.mu.Unlock()
	c.take(inside.Frame{Kind: inside.End})
}
