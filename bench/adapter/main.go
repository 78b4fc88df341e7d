// Command adapter compares a program on controller-runtime's manager with the same program on the
// operator library's adapter: Cluster API's core manager, which test/adapter/cluster-api.sh build
// compiles both ways.
//
//	go run ./bench/adapter -kelson bin/kelson -programs bin/adapter/cluster-api -crds DIR -docs docs/internals/benchmarks.md
//
// For each side it starts a server with Cluster API's definitions and the program, creates
// Clusters, and waits until the program has nothing more to do. It then starts the program again,
// on the same objects. The sides alternate; figures are medians over the rounds.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"time"
)

var (
	kelson   = flag.String("kelson", "bin/kelson", "the kelson `binary`, which is the server")
	programs = flag.String("programs", "bin/adapter/cluster-api", "`folder` with the programs plain and adapter")
	crds     = flag.String("crds", "bin/adapter/cluster-api/v1.14.2/core/config/crd/bases", "`folder` of Cluster API's definitions")
	count    = flag.Int("n", 300, "`number` of Clusters")
	rounds   = flag.Int("rounds", 3, "`number` of rounds")
	docs     = flag.String("docs", "", "`file` whose section is written; empty: none")
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
	results := map[string][]figures{} // by side and phase
	for round := range *rounds {
		order := slices.Clone(sides)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, side := range order {
			created, restarted, err := measure(ctx, side)
			if err != nil {
				return fmt.Errorf("%s: %w", side, err)
			}
			results[side+" created"] = append(results[side+" created"], created)
			results[side+" restarted"] = append(results[side+" restarted"], restarted)
			fmt.Fprintf(os.Stderr, "%s: created %+v, restarted %+v\n", side, created, restarted)
		}
	}
	table := report(results)
	fmt.Print(table)
	if *docs == "" {
		return nil
	}
	return writeSection(*docs, table)
}

// measure runs one side on a new server.
func measure(ctx context.Context, side string) (created, restarted figures, err error) {
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
	if err := s.define(ctx, *crds); err != nil {
		return created, restarted, err
	}
	executable, err := filepath.Abs(filepath.Join(*programs, side))
	if err != nil {
		return created, restarted, err
	}
	p, err := startProgram(ctx, dir, executable, s.kubeconfig)
	if err != nil {
		return created, restarted, err
	}
	if err = s.createClusters(ctx, *count); err == nil {
		created, err = p.waitIdle(ctx)
	}
	p.process.Stop(20 * time.Second)
	if err != nil {
		return created, restarted, err
	}
	if p, err = startProgram(ctx, dir, executable, s.kubeconfig); err != nil {
		return created, restarted, err
	}
	restarted, err = p.waitIdle(ctx)
	p.process.Stop(20 * time.Second)
	return created, restarted, err
}
