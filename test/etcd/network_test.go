package etcd_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"kelson.dev/internal/require"
)

// network connects the members through a proxy in front of each. A proxy identifies the dialing
// member by the process that owns the other end of the connection, which Linux shows in /proc, so
// that a member can be isolated in both directions.
type network struct {
	t      *testing.T
	whole  bool // members can't be isolated, because /proc does not exist
	mu     sync.Mutex
	pids   map[int]int // process ids of members
	conns  map[*link]bool
	apart  map[int]bool // isolated members
	silent bool         // isolated connections drop bytes instead of closing
}

// link is a connection between two members.
type link struct {
	from, to int
	ends     [2]net.Conn
	lost     bool // dropped bytes, so the connection must be closed
}

func (l *link) close() {
	for _, c := range l.ends {
		c.Close()
	}
}

func newNetwork(t *testing.T) *network {
	_, err := os.Stat("/proc/net/tcp")
	n := &network{t: t, whole: err != nil, pids: map[int]int{}, conns: map[*link]bool{}, apart: map[int]bool{}}
	t.Cleanup(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		for l := range n.conns {
			l.close()
		}
	})
	return n
}

// proxy listens for the member's peers until the test ends.
func (n *network) proxy(member int, target string) (address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(n.t, err)
	n.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go n.connect(conn, member, target)
		}
	}()
	return l.Addr().String()
}

func (n *network) owns(member, pid int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pids[member] = pid
}

func (n *network) connect(conn net.Conn, to int, target string) {
	other, err := net.Dial("tcp", target)
	if err != nil {
		conn.Close()
		return
	}
	l := &link{from: to, to: to, ends: [2]net.Conn{conn, other}}
	if !n.whole {
		l.from = n.dialer(conn)
	}
	n.mu.Lock()
	if l.from < 0 || n.cut(l) && !n.silent {
		n.mu.Unlock()
		l.close()
		return
	}
	n.conns[l] = true
	n.mu.Unlock()
	go n.pump(l, 0)
	n.pump(l, 1)
}

// cut reports whether a link is interrupted. The caller holds mu.
func (n *network) cut(l *link) bool { return n.apart[l.from] != n.apart[l.to] }

// pump copies bytes in one direction until an end is closed.
func (n *network) pump(l *link, from int) {
	defer func() {
		l.close()
		n.mu.Lock()
		delete(n.conns, l)
		n.mu.Unlock()
	}()
	buffer := make([]byte, 64<<10)
	for {
		count, err := l.ends[from].Read(buffer)
		n.mu.Lock()
		l.lost = l.lost || n.cut(l)
		lost := l.lost
		n.mu.Unlock()
		if !lost {
			if _, err := l.ends[1-from].Write(buffer[:count]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// isolate separates members from all others.
func (n *network) isolate(silent bool, members ...int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = silent
	for _, m := range members {
		n.apart[m] = true
	}
	for l := range n.conns {
		if n.cut(l) && !silent {
			l.close()
		}
	}
}

// heal connects all members again.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.apart)
	for l := range n.conns {
		if l.lost {
			l.close()
		}
	}
}

// dialer returns the member whose process owns the other end of a connection, or -1.
func (n *network) dialer(conn net.Conn) int {
	inode := inodeOf(conn.RemoteAddr().(*net.TCPAddr).Port, conn.LocalAddr().(*net.TCPAddr).Port)
	if inode == "" {
		return -1
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for member, pid := range n.pids {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if slices.ContainsFunc(files, func(file string) bool {
			to, _ := os.Readlink(file)
			return to == "socket:["+inode+"]"
		}) {
			return member
		}
	}
	return -1
}

// inodeOf returns the inode of the socket of a connection between two local ports.
func inodeOf(local, remote int) string {
	file, err := os.Open("/proc/net/tcp")
	if err != nil {
		return ""
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", local)) &&
			strings.HasSuffix(fields[2], fmt.Sprintf(":%04X", remote)) {
			return fields[9]
		}
	}
	return ""
}
