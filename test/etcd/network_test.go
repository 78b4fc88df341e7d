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
)

// network is what lies between the members: a proxy before each. Who dials is known by the owner of the connection's other end, which
// Linux tells in /proc, so that one member can be cut off from the others in both directions.
type network struct {
	t      *testing.T
	whole  bool // nobody can be cut off, for /proc is not there
	mu     sync.Mutex
	pids   map[int]int // of members, by number
	conns  map[*link]bool
	apart  map[int]bool // members that are cut off
	silent bool         // what is cut swallows bytes; else it closes connections
}

// link is one connection between two members.
type link struct {
	from, to int
	ends     [2]net.Conn
	lost     bool // bytes of it were swallowed: it is of no use any more
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
	if err != nil {
		n.t.Fatal(err)
	}
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

// cut says whether nothing passes. The caller holds mu.
func (n *network) cut(l *link) bool { return n.apart[l.from] != n.apart[l.to] }

// pump carries bytes one way until an end is closed.
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

// isolate cuts members off from all that are not among them.
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

// heal joins all members again.
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

// dialer is the member whose process holds the other end of a connection; -1: none.
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

// inodeOf finds the socket of a connection between two local ports.
func inodeOf(local, remote int) string {
	file, err := os.Open("/proc/net/tcp")
	if err != nil {
		return ""
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 9 && strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", local)) && strings.HasSuffix(fields[2], fmt.Sprintf(":%04X", remote)) {
			return fields[9]
		}
	}
	return ""
}
