package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"kelson.dev/apiserver/store"
)

// lossy is a file system in memory that guarantees only what a real one does. When power is lost,
// everything that was not synced may be lost: contents completely or by sectors, in any order, and
// names. A chosen call fails or loses power.
type lossy struct {
	mu     sync.Mutex
	rand   *rand.Rand // separate, because checkpoints run concurrently with the test
	dirs   map[string]*lossyDir
	locked map[string]bool
	calls  int

	failAt   int   // the call that fails; 0: none
	failure  error // the error of that call
	powerAt  int   // the call during which power is lost; 0: none
	powerOff bool
	// the call that failed or lost power, with the extension of its file
	injected string
}

var (
	errPower = errors.New("power was lost")
	errDisk  = errors.New("input/output error")
	errFull  = error(syscall.ENOSPC)
)

// lossyDir is a directory: its current and its durable entries.
type lossyDir struct {
	now, durable map[string]*inode
	changes      []func(map[string]*inode) // since the last sync, in order
}

// inode is the content of a file.
type inode struct {
	content []byte
	synced  []byte
}

func newLossy(r *rand.Rand) *lossy {
	return &lossy{rand: r, dirs: map[string]*lossyDir{}, locked: map[string]bool{}}
}

// setPower turns the power on or off.
func (l *lossy) setPower(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.powerOff = !on
}

// call counts a call. It returns the chosen error or the loss of power at the chosen call.
func (l *lossy) call(what, name string) error {
	if l.powerOff {
		return errPower
	}
	switch l.calls++; l.calls {
	case l.powerAt:
		l.powerOff = true
	case l.failAt:
	default:
		return nil
	}
	l.injected = what + " " + filepath.Ext(strings.TrimSuffix(name, newSuffix))
	if l.powerOff {
		return errPower
	}
	return l.failure
}

const sector = 512

// crash keeps the durable data, and a random part of the rest.
func (l *lossy) crash() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.dirs {
		// Any number of name changes reach the disk, in any order.
		for _, change := range d.changes {
			if l.rand.IntN(2) == 0 {
				change(d.durable)
			}
		}
		d.changes = nil
		d.now = map[string]*inode{}
		for name, node := range d.durable {
			node.content = l.survivor(node)
			node.synced = slices.Clone(node.content)
			d.now[name] = node
		}
	}
	clear(l.locked)
	l.powerOff, l.powerAt, l.failAt, l.calls = false, 0, 0, 0
}

// survivor returns a possible content of a file after a crash: the synced content, and random
// sectors of the rest, with zeros between them.
func (l *lossy) survivor(n *inode) []byte {
	size := len(n.content)
	switch {
	case size > len(n.synced):
		size = len(n.synced) + l.rand.IntN(size-len(n.synced)+1)
	case l.rand.IntN(2) == 0:
		size = len(n.synced)
	}
	found := make([]byte, size)
	copy(found, n.synced)
	for at := 0; at < min(size, len(n.content)); {
		next := min((at/sector+1)*sector, size, len(n.content))
		if l.rand.IntN(3) > 0 {
			copy(found[at:next], n.content[at:next])
		}
		at = next
	}
	return found
}

func (l *lossy) dir(name string) (*lossyDir, error) {
	d := l.dirs[name]
	if d == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return d, nil
}

func (l *lossy) node(name string) (*inode, error) {
	d, err := l.dir(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	n := d.now[filepath.Base(name)]
	if n == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return n, nil
}

func (l *lossy) change(name string, change func(map[string]*inode)) error {
	d, err := l.dir(filepath.Dir(name))
	if err != nil {
		return err
	}
	change(d.now)
	d.changes = append(d.changes, change)
	return nil
}

func (l *lossy) MakeDir(dir string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.call("makedir", dir); err != nil {
		return err
	}
	if l.dirs[dir] == nil {
		l.dirs[dir] = &lossyDir{now: map[string]*inode{}, durable: map[string]*inode{}}
	}
	return nil
}

func (l *lossy) List(dir string) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.call("list", dir); err != nil {
		return nil, err
	}
	d, err := l.dir(dir)
	if err != nil {
		return nil, err
	}
	return slices.Collect(maps.Keys(d.now)), nil
}

func (l *lossy) Lock(name string) (io.Closer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.call("lock", name); err != nil {
		return nil, err
	}
	if l.locked[name] {
		return nil, store.ErrLocked
	}
	l.locked[name] = true
	return unlock{l, name}, nil
}

type unlock struct {
	files *lossy
	name  string
}

func (u unlock) Close() error {
	u.files.mu.Lock()
	defer u.files.mu.Unlock()
	delete(u.files.locked, u.name)
	return nil
}

func (l *lossy) Create(name string) (file, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.call("create", name); err != nil {
		return nil, err
	}
	if _, err := l.node(name); err == nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	}
	n := &inode{}
	base := filepath.Base(name)
	if err := l.change(name, func(d map[string]*inode) { d[base] = n }); err != nil {
		return nil, err
	}
	return &lossyFile{files: l, name: name, node: n}, nil
}

type lossyFile struct {
	files *lossy
	name  string
	node  *inode
	at    int // end of the written data
}

func (f *lossyFile) Write(p []byte) (int, error) {
	f.files.mu.Lock()
	defer f.files.mu.Unlock()
	err := f.files.call("write", f.name)
	n := len(p)
	if err != nil {
		n = f.files.rand.IntN(len(p) + 1) // a failing write may write a part
	}
	f.node.put(p[:n], f.at)
	f.at += n
	return n, err
}

// put writes at an offset within the file or at its end.
func (n *inode) put(p []byte, at int) {
	over := copy(n.content[at:], p)
	n.content = append(n.content, p[over:]...)
}

func (f *lossyFile) Reserve(bytes int64) error {
	f.files.mu.Lock()
	defer f.files.mu.Unlock()
	err := f.files.call("reserve", f.name)
	zeros := max(0, f.at+int(bytes)-len(f.node.content))
	if err != nil {
		zeros = f.files.rand.IntN(zeros + 1)
	}
	f.node.put(make([]byte, zeros), len(f.node.content))
	return err
}

func (f *lossyFile) Rewind(size int64) error {
	f.files.mu.Lock()
	defer f.files.mu.Unlock()
	if err := f.files.call("rewind", f.name); err != nil {
		return err
	}
	f.at = int(size)
	f.node.content = f.node.content[:f.at:f.at]
	return nil
}

func (f *lossyFile) Trim() error {
	f.files.mu.Lock()
	defer f.files.mu.Unlock()
	if err := f.files.call("trim", f.name); err != nil {
		return err
	}
	f.node.content = f.node.content[:f.at:f.at]
	return nil
}

func (f *lossyFile) Sync() error {
	f.files.mu.Lock()
	defer f.files.mu.Unlock()
	if err := f.files.call("sync", f.name); err != nil {
		if f.files.rand.IntN(2) == 0 {
			f.node.synced = slices.Clone(f.node.content)
		}
		return err
	}
	f.node.synced = slices.Clone(f.node.content)
	return nil
}

func (f *lossyFile) Close() error { return nil }

func (l *lossy) Open(name string) (reader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.call("open", name); err != nil {
		return nil, err
	}
	n, err := l.node(name)
	if err != nil {
		return nil, err
	}
	return lossyReader{strings.NewReader(string(n.content)), name, l}, nil
}

type lossyReader struct {
	*strings.Reader
	name  string
	files *lossy
}

func (r lossyReader) ReadAt(p []byte, at int64) (int, error) {
	r.files.mu.Lock()
	err := r.files.call("read", r.name)
	r.files.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return r.Reader.ReadAt(p, at)
}

func (r lossyReader) Close() error { return nil }

func (r lossyReader) LastWritten() time.Time { return time.Time{} }
func (r lossyReader) Map() []byte            { return nil }

func (l *lossy) Truncate(name string, size int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.node(name)
	if err != nil {
		return err
	}
	if err := l.call("truncate", name); err != nil {
		return err
	}
	n.content = n.content[:size]
	n.synced = slices.Clone(n.content)
	return nil
}

func (l *lossy) Rename(from, to string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.call("rename", to); err != nil {
		return err
	}
	n, err := l.node(from)
	if err != nil {
		return err
	}
	source, target := filepath.Base(from), filepath.Base(to)
	return l.change(to, func(d map[string]*inode) {
		delete(d, source)
		d[target] = n
	})
}

func (l *lossy) Remove(name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.call("remove", name); err != nil {
		return err
	}
	if _, err := l.node(name); err != nil {
		return err
	}
	base := filepath.Base(name)
	return l.change(name, func(d map[string]*inode) { delete(d, base) })
}

func (l *lossy) OpenDir(dir string) (openDirectory, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.call("opendir", dir); err != nil {
		return nil, err
	}
	if _, err := l.dir(dir); err != nil {
		return nil, err
	}
	return openLossy{l, dir}, nil
}

type openLossy struct {
	files *lossy
	name  string
}

func (o openLossy) Close() error { return nil }

func (o openLossy) Sync() error {
	o.files.mu.Lock()
	defer o.files.mu.Unlock()
	if err := o.files.call("syncdir", o.name); err != nil {
		return err
	}
	d, err := o.files.dir(o.name)
	if err != nil {
		return err
	}
	for _, change := range d.changes {
		change(d.durable)
	}
	d.changes = nil
	return nil
}

func (l *lossy) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var s strings.Builder
	for name, d := range l.dirs {
		fmt.Fprintln(&s, name)
		for file, n := range d.now {
			fmt.Fprintf(&s, "  %s %d bytes, %d synced\n", file, len(n.content), len(n.synced))
		}
	}
	return s.String()
}
