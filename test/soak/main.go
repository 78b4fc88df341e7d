// Command soak shows that the memory of kelson serve follows its live objects, not its traffic. It
// sends a mixture of requests to a server on a loopback address, at a constant rate, while watches
// follow them, and samples the server's memory every second:
//
//	make soak-server
//	go run ./test/soak -kelson bin/kelson -for 3m
//
// # What is compared
//
// The memory that the live objects need is the private memory (RssAnon) of a second server: it
// starts with the data directory that the first has left, answers one list of every resource, and
// then is idle, so that it has returned all memory that it does not use. Resident pages of the
// program's file are excluded on both sides: they depend on which code has run, not on objects,
// and the system can take them away at any time. The program exits with status 1 if the first
// server's private memory ever exceeded
//
//	1.5 × need + 64 MiB
//
// or if the server disturbed a watch that follows live: it ended one with 410, or with an error.
//
// # The mixture
//
// Of 30 requests a second, 18 create Events, and the others create, patch and delete ConfigMaps,
// Pods and custom resources, whose numbers stay the same. A simulated node runs the Pods, which
// causes more writes. Once a second, a client lists one resource in one encoding. 50 watches in
// several encodings end and continue every few minutes, as those of informers do.
//
// All loops are bounded by -for. The servers end with the program.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"kelson.dev/test/child"
)

// options are the flags.
type options struct {
	kelson   string
	scratch  string
	length   time.Duration
	rate     int
	watches  int
	events   int
	rows     int
	flags    string
	profiles string
	seed     uint64
}

func main() {
	var o options
	flag.StringVar(&o.kelson, "kelson", "bin/kelson", "the kelson binary")
	flag.StringVar(&o.scratch, "scratch", "", "folder for the server's state (default: a temporary one)")
	flag.DurationVar(&o.length, "for", 20*time.Minute, "duration of the load")
	flag.IntVar(&o.rate, "rate", 30, "requests a second")
	flag.IntVar(&o.watches, "watches", 50, "watches that follow")
	flag.IntVar(&o.events, "events", 0, "Events that exist at the beginning; at the default rate, an hour's Events are 65,000")
	flag.IntVar(&o.rows, "rows", 20, "rows of the table")
	flag.StringVar(&o.flags, "flags", "", "more flags of kelson serve, separated by spaces")
	flag.StringVar(&o.profiles, "profiles", "", "folder for profiles of the heap, one for each row of the table")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the mixture")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func (o *options) run(ctx context.Context) error {
	if o.rate <= 0 || o.watches < 0 || o.events < 0 || o.rows <= 0 || o.length <= 0 {
		return errors.New("-for, -rate and -rows must be positive, and -watches and -events must not be negative")
	}
	dir, err := os.MkdirTemp(o.scratch, "kelson-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Printf("load of the machine: %s\n", loadAverage())
	r, err := o.soak(ctx, dir)
	if err != nil {
		return err
	}
	need, err := o.need(ctx, dir)
	if err != nil {
		return err
	}
	fmt.Printf("load of the machine: %s\n", loadAverage())
	return r.verdict(need)
}

// soak loads a server and prints a row of the table now and then.
func (o *options) soak(ctx context.Context, dir string) (*report, error) {
	srv, err := o.start(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer srv.stop()
	l := newLoad(srv, o.seed)
	if err := l.prepare(ctx, o.events); err != nil {
		return nil, fmt.Errorf("prepare objects: %w", err)
	}
	running, end := context.WithTimeout(ctx, o.length)
	defer end()
	w := watchAll(running, srv, o.watches)
	written := make(chan error, 1)
	go func() { written <- l.run(running, o.rate) }()

	r := &report{profiles: o.profiles}
	if err := r.sample(running, srv, l, w, o.length/time.Duration(o.rows)); err != nil {
		return nil, err
	}
	if err := <-written; err != nil {
		return nil, err
	}
	w.wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r.watches = w.problems()
	if err := r.idle(ctx, srv); err != nil {
		return nil, err
	}
	return r, nil
}

// need returns the memory of a new server with the same data, after it has listed everything.
func (o *options) need(ctx context.Context, dir string) (memory, error) {
	srv, err := o.start(ctx, dir)
	if err != nil {
		return memory{}, err
	}
	defer srv.stop()
	if err := srv.listAll(ctx); err != nil {
		return memory{}, err
	}
	mapped, err := child.MappedOf(srv.process.ID, ".state")
	if err != nil {
		return memory{}, err
	}
	need, err := srv.settled(ctx)
	need.anon += mapped
	return need, err
}
