package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"kelson.dev/bench/generators"
	"kelson.dev/bench/median"
	"kelson.dev/test/child"
)

// figures are medians.
type figures struct {
	runTheirs, runOurs   cost
	editTheirs, editOurs cost
}

// cost is wall clock time and CPU time.
type cost struct{ clock, processor time.Duration }

type bench struct {
	theirs, ours string // binaries
	dirs         [2]string
	root         string
}

// newBench builds controller-gen and writes the project twice, so that neither side uses the
// other's files.
func newBench(ctx context.Context, kelson string) (*bench, error) {
	ours, err := filepath.Abs(kelson)
	if err != nil {
		return nil, err
	}
	theirs, err := generators.Peer(ctx)
	if err != nil {
		return nil, err
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		return nil, fmt.Errorf("run from the root of the repository: %w", err)
	}
	root, err := os.MkdirTemp("", "kelson-generators-")
	if err != nil {
		return nil, err
	}
	b := &bench{theirs: theirs, ours: ours, root: root,
		dirs: [2]string{filepath.Join(root, "theirs"), filepath.Join(root, "ours")}}
	for _, dir := range b.dirs {
		if err := writeProject(dir, sums); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (b *bench) close() { os.RemoveAll(b.root) }

func (b *bench) measure(ctx context.Context, rounds int) (figures, error) {
	for range 2 { // warm up the caches
		if _, err := b.runTheirs(ctx); err != nil {
			return figures{}, err
		}
		if _, err := b.runOurs(ctx); err != nil {
			return figures{}, err
		}
	}
	var theirs, ours []cost
	for range rounds {
		t, err := b.runTheirs(ctx)
		if err != nil {
			return figures{}, err
		}
		o, err := b.runOurs(ctx)
		if err != nil {
			return figures{}, err
		}
		theirs, ours = append(theirs, t), append(ours, o)
	}
	f := figures{runTheirs: middle(theirs), runOurs: middle(ours)}
	w, err := b.watch(ctx)
	if err != nil {
		return f, err
	}
	defer w.stop()
	theirs, ours = nil, nil
	for n := range rounds {
		if _, err := edit(b.dirs[0], n+1); err != nil {
			return f, err
		}
		t, err := b.runTheirs(ctx)
		if err != nil {
			return f, err
		}
		o, err := w.edit(b.dirs[1], n+1)
		if err != nil {
			return f, err
		}
		theirs, ours = append(theirs, t), append(ours, o)
	}
	f.editTheirs, f.editOurs = middle(theirs), middle(ours)
	return f, nil
}

// middle returns the medians of costs.
func middle(costs []cost) cost {
	return cost{median.By(costs, func(c cost) time.Duration { return c.clock }),
		median.By(costs, func(c cost) time.Duration { return c.processor })}
}

func (b *bench) runTheirs(ctx context.Context) (cost, error) {
	return timed(exec.CommandContext(ctx, b.theirs, "rbac:roleName=manager-role", "crd", "object", "paths=./...",
		"output:crd:artifacts:config=config/crd/bases"), b.dirs[0])
}

func (b *bench) runOurs(ctx context.Context) (cost, error) {
	return timed(exec.CommandContext(ctx, b.ours, "generate"), b.dirs[1])
}

func timed(cmd *exec.Cmd, dir string) (cost, error) {
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	began := time.Now()
	out, err := cmd.CombinedOutput()
	clock := time.Since(began)
	if err != nil {
		return cost{}, fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, out)
	}
	return cost{clock, used(cmd)}, nil
}

// used returns the CPU time of an ended process and its children.
func used(cmd *exec.Cmd) time.Duration {
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// watcher is a running `kelson generate --watch`.
type watcher struct {
	cmd *exec.Cmd
	out *bytes.Buffer
}

func (b *bench) watch(ctx context.Context) (*watcher, error) {
	w := &watcher{cmd: exec.CommandContext(ctx, b.ours, "generate", "--watch"), out: &bytes.Buffer{}}
	w.cmd.Dir, w.cmd.Env = b.dirs[1], append(os.Environ(), "GOWORK=off")
	w.cmd.Stdout, w.cmd.Stderr = w.out, w.out
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	_, err := w.edit(b.dirs[1], 1000) // wait until it has read all files once
	return w, err
}

func (w *watcher) stop() {
	_ = w.cmd.Process.Signal(syscall.SIGTERM)
	_ = w.cmd.Wait()
}

// edit changes a file and waits until the definition has changed.
func (w *watcher) edit(dir string, n int) (cost, error) {
	crd := filepath.Join(dir, "config/crd/bases", "harbour.example.com_"+strings.ToLower(kinds[0])+"s.yaml")
	before := w.processor()
	began := time.Now()
	want, err := edit(dir, n)
	if err != nil {
		return cost{}, err
	}
	again := began
	for {
		data, _ := os.ReadFile(crd)
		if bytes.Contains(data, []byte(want)) {
			break
		}
		if time.Since(began) > time.Minute {
			return cost{}, fmt.Errorf("kelson generate --watch does not react to an edit: %s", w.out)
		}
		// the process may not be watching yet
		if n == 1000 && time.Since(again) > 200*time.Millisecond {
			again = time.Now()
			if _, err := edit(dir, n); err != nil {
				return cost{}, err
			}
		}
		time.Sleep(200 * time.Microsecond)
	}
	clock := time.Since(began)
	time.Sleep(150 * time.Millisecond) // also count the work that its own output triggers
	return cost{clock, w.processor() - before}, nil
}

// processor returns the CPU time of the running process.
func (w *watcher) processor() time.Duration {
	used, _ := child.UsageOf(w.cmd.Process.Pid)
	return used.CPU
}
