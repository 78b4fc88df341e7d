// Command operator compares the operator library with client-go and controller-runtime: informers,
// work queue, handlers, reconciles. Both sides do the same tasks, each in its own process
// (bench/operator/ours, bench/operator/theirs), against the same servers, in one run. The command
// prints a table with the targets, and writes it to a section of the page -docs.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

var (
	kelson   = flag.String("kelson", "bin/kelson", "the kelson binary")
	binaries = flag.String("peers", "bin/peers", "folder with etcd and kube-apiserver; without them, only Kelson serves")
	sides    = flag.String("sides", "bin/bench", "folder with ours and theirs")
	docs     = flag.String("docs", "", "page whose section is written")
	objects  = flag.Int("objects", 50000, "objects of each kind for informers")
	samples  = flag.Int("samples", 5000, "custom resources to reconcile")
	rounds   = flag.Int("rounds", 3, "number of alternating measurements of informers; the table has medians")
	turns    = flag.Int("turns", 6, "number of alternating measurements of reconciles, which vary more; the table compares the sides of each turn")
	only     = flag.String("only", "", "one part: informers, handlers, queue, reconcile or idle")
	on       = flag.String("on", "", "one server: kelson or kube-apiserver")
	profile  = flag.String("profile", "", "folder for CPU and allocation profiles of our side")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	type part struct {
		name string
		run  func(context.Context, string, *table) error
	}
	parts := []part{{"queue", queues}, {"informers", informers}, {"handlers", handlers}, {"idle", idle},
		{"reconcile", reconciles}}
	if *only != "" {
		parts = slices.DeleteFunc(parts, func(p part) bool { return p.name != *only })
	}
	if len(parts) == 0 {
		return fmt.Errorf("unknown part %q", *only)
	}
	dir, err := os.MkdirTemp("", "kelson-bench-operator-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t := &table{}
	for _, part := range parts {
		begin := time.Now()
		under := filepath.Join(dir, part.name)
		if err := os.Mkdir(under, 0o700); err != nil {
			return err
		}
		if err := part.run(ctx, under, t); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", part.name, time.Since(begin).Round(time.Second))
	}
	t.print(os.Stdout)
	if *docs != "" && *only == "" && *on == "" {
		return t.write(*docs)
	}
	return nil
}

// isAsked reports whether the flags select a server.
func isAsked(name string) bool {
	return (*on == "" || *on == name) && (name != "kube-apiserver" || hasPeer())
}

// hasPeer reports whether kube-apiserver and etcd are installed.
func hasPeer() bool {
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(*binaries, name)); err != nil {
			return false
		}
	}
	return true
}
