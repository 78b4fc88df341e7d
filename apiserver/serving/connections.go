package serving

import (
	"net"
	"sync"
)

// leavingFiles returns a listener whose connections leave some of the process's file descriptors to
// others. Clients that open connections could otherwise take all of them, and the store could then
// not begin its next file. Further connections wait until others are closed.
func leavingFiles(l net.Listener) net.Listener {
	files, ok := maxFiles()
	if !ok {
		return l
	}
	return newBounded(l, files-min(files/2, max(64, files/8)))
}

// bounded is a listener with a limited number of open connections.
type bounded struct {
	net.Listener
	open   chan struct{} // an element for each connection, and for Accept
	closed chan struct{}
	close  func() error
}

func newBounded(l net.Listener, most int) *bounded {
	b := &bounded{Listener: l, open: make(chan struct{}, most), closed: make(chan struct{})}
	b.close = sync.OnceValue(func() error {
		close(b.closed)
		return l.Close()
	})
	return b
}

func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.open <- struct{}{}:
	case <-b.closed:
		return nil, net.ErrClosed
	}
	accepted, err := b.Listener.Accept()
	tcp, ok := accepted.(*net.TCPConn)
	if err != nil || !ok { // pipes of tests have no file
		<-b.open
		return accepted, err
	}
	return &boundedConn{TCPConn: tcp, closed: sync.OnceFunc(func() { <-b.open })}, nil
}

func (b *bounded) Close() error { return b.close() }

// boundedConn is a connection of a bounded listener.
type boundedConn struct {
	*net.TCPConn
	closed func()
}

func (c *boundedConn) Close() error {
	defer c.closed()
	return c.TCPConn.Close()
}
