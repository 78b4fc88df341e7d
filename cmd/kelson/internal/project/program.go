package project

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"kelson.dev/apiserver/store/filelock"
)

// kept is the maximum number of programs in the cache. A program has up to 130 MB.
const kept = 8

// Link calls link with the name of the file to which it must link the project's program for a
// command. The file is in the user's cache: it has the result of the last successful link, which
// the go command replaces only if something has changed. No other process uses it before the caller
// calls release. Without a cache, or while another process uses the file, Link uses a file in the
// folder temp.
func (p *Project) Link(command, temp string,
	link func(file string) error) (file string, release func(), err error) {
	folder, state := p.claim(command)
	if state == nil {
		file = filepath.Join(temp, command)
		return file, func() {}, link(file)
	}
	release = func() { state.Close() }
	// The state is empty while the file is written. A process that was killed then may have left a
	// part of the file.
	file = filepath.Join(folder, command)
	if info, err := state.Stat(); err != nil || info.Size() == 0 {
		_ = os.Remove(file) // if it exists
	}
	if err = state.Truncate(0); err == nil {
		err = link(file)
	}
	if err == nil {
		_, err = state.WriteAt([]byte("complete\n"), 0)
	}
	if err != nil {
		release()
	}
	return file, release, err
}

// BuildAgain is Build for a command that users run again and again: the program is linked only if
// it has changed since the last build for the command.
func (p *Project) BuildAgain(ctx context.Context, command, binary string) error {
	file, release, err := p.Link(command, filepath.Dir(binary), func(file string) error {
		return p.Build(ctx, file)
	})
	if err != nil {
		return err
	}
	defer release()
	// The go command replaces programs, and never changes them. On Windows, it could not replace
	// one whose other name runs.
	if runtime.GOOS != "windows" && os.Link(file, binary) == nil {
		return nil
	}
	program, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(binary, program, 0o755)
}

// claim returns the folder of a program in the user's cache, and the locked file that has the
// program's state. It returns a nil file without a cache, and while another process uses the
// program.
func (p *Project) claim(command string) (folder string, state *os.File) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", nil
	}
	programs := filepath.Join(cache, "kelson", "programs")
	folder = filepath.Join(programs, fmt.Sprintf("%x", sha256.Sum256([]byte(p.Main+"\x00"+command)))[:16])
	if _, err := os.Stat(folder); err != nil {
		prune(programs)
	}
	if os.MkdirAll(folder, 0o700) != nil {
		return "", nil
	}
	state, err = os.OpenFile(filepath.Join(folder, "state"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", nil
	}
	if filelock.Exclusive(state) != nil {
		state.Close()
		return "", nil
	}
	return folder, state
}

// prune removes programs except those that were used last, to make room for another one. Errors
// have no consequences: the next call tries again.
func prune(programs string) {
	states, _ := filepath.Glob(filepath.Join(programs, "*", "state"))
	used := func(state string) time.Time {
		info, err := os.Stat(state)
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	slices.SortFunc(states, func(a, b string) int { return used(b).Compare(used(a)) })
	for _, state := range states[min(kept-1, len(states)):] {
		f, err := os.OpenFile(state, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if filelock.Exclusive(f) == nil {
			_ = os.RemoveAll(filepath.Dir(state))
		}
		f.Close()
	}
}
