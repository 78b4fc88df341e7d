// Speed compares the speed of Kelson's generators with that of controller-gen, alternating, on a
// project with three kinds:
//
//	go run ./bench/generators/speed -kelson bin/kelson -docs docs/internals/benchmarks.md
//
// A run is a process from its start to its end, with warm build and disk caches. An edit is the
// time from the change of a source file to the change of the definition: with controller-gen a run,
// with Kelson the reaction of `kelson generate --watch`.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"

	"kelson.dev/test/section"
)

func main() {
	kelson := flag.String("kelson", "bin/kelson", "the binary")
	docs := flag.String("docs", "", "the page whose section is written")
	rounds := flag.Int("rounds", 15, "number of measurements of each figure")
	flag.Parse()
	if err := run(context.Background(), *kelson, *docs, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kelson, docs string, rounds int) error {
	b, err := newBench(ctx, kelson)
	if err != nil {
		return err
	}
	defer b.close()
	figures, err := b.measure(ctx, rounds)
	if err != nil {
		return err
	}
	part := text(figures, rounds, runtime.NumCPU(), load())
	fmt.Print(part)
	if docs == "" {
		return nil
	}
	return section.Replace(docs, begin, end, part)
}

// load returns the load average of the last five minutes, or 0 if it is unknown.
func load() float64 {
	var one, five float64
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(data), &one, &five)
	}
	return five
}
