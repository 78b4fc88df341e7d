// Command adapter compares programs on controller-runtime's manager with the same programs on the
// operator library's adapter. test/adapter/project.sh NAME build compiles each program both ways;
// workloads lists them.
//
//	go run ./bench/adapter -kelson bin/kelson -docs docs/internals/benchmarks.md [name...]
//
// For each side it starts a server with the program's definitions, and the program. It creates
// objects, and waits until the program is idle. It then starts the program again, on the same
// objects. The sides alternate; figures are medians over the rounds.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kelson.dev/test/section"
)

var (
	kelson   = flag.String("kelson", "bin/kelson", "the kelson `binary`, which is the server")
	programs = flag.String("programs", "bin/adapter",
		"`folder` with a folder per program, with its two builds plain and adapter")
	rounds = flag.Int("rounds", 3, "`number` of rounds")
	docs   = flag.String("docs", "", "`file` in which to write the section; empty: none")
)

// sides are the names of the programs.
var sides = []string{"plain", "adapter"}

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	tables := ""
	for _, w := range workloads {
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), w.name) {
			continue
		}
		results, err := compare(ctx, w)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		tables += report(w, results)
	}
	fmt.Print(tables)
	if *docs == "" {
		return nil
	}
	return section.Replace(*docs, begin, end, introduction+strings.TrimRight(tables, "\n")+"\n")
}

// compare measures both sides of a workload, in turns. Its results are by side and phase.
func compare(ctx context.Context, w workload) (map[string][]figures, error) {
	results := map[string][]figures{}
	for round := range *rounds {
		order := slices.Clone(sides)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, side := range order {
			created, restarted, err := measure(ctx, w, side)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", side, err)
			}
			results[side+" created"] = append(results[side+" created"], created)
			results[side+" restarted"] = append(results[side+" restarted"], restarted)
			fmt.Fprintf(os.Stderr, "%s, %s: created %+v, restarted %+v\n", w.name, side, created, restarted)
		}
	}
	return results, nil
}

// measure runs one side on a new server.
func measure(ctx context.Context, w workload, side string) (created, restarted figures, err error) {
	dir, err := os.MkdirTemp("", "bench-adapter")
	if err != nil {
		return created, restarted, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := startServer(ctx, dir)
	if err != nil {
		return created, restarted, err
	}
	defer s.process.Stop(20 * time.Second)
	folder, err := filepath.Abs(filepath.Join(*programs, w.name))
	if err != nil {
		return created, restarted, err
	}
	if err := s.define(ctx, w, folder); err != nil {
		return created, restarted, err
	}
	token := ""
	if w.secure {
		if token, err = s.readerToken(ctx); err != nil {
			return created, restarted, err
		}
	}
	start := func() (*program, error) {
		return startProgram(ctx, w, dir, filepath.Join(folder, side), s.kubeconfig, token)
	}
	p, err := start()
	if err != nil {
		return created, restarted, err
	}
	if err = s.create(ctx, w); err == nil {
		created, err = p.waitIdle(ctx)
	}
	p.process.Stop(20 * time.Second)
	if err != nil {
		return created, restarted, err
	}
	if p, err = start(); err != nil {
		return created, restarted, err
	}
	restarted, err = p.waitIdle(ctx)
	p.process.Stop(20 * time.Second)
	return created, restarted, err
}
