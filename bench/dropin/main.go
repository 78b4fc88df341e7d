// Command dropin compares the programs of kelson envtest with kube-apiserver and etcd, as
// controller-runtime's envtest runs them: time to start and stop, and resident memory. It runs on
// Linux only.
//
//	dropin -kelson bin/kelson -peers bin/peers -docs docs/internals/benchmarks.md
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"kelson.dev/bench/median"
	"kelson.dev/test/section"
)

type options struct {
	rounds, objects int
	idle            time.Duration
}

// side is a folder with programs for envtest.
type side struct {
	name, assets string
	rounds       int
}

// figures are the measurements of a side; the times are medians.
type figures struct {
	start, stop       time.Duration // of envtest
	ownStart, ownStop time.Duration // of the programs alone
	idle, full        memory
}

func main() {
	var o options
	kelson := flag.String("kelson", "bin/kelson", "the kelson binary")
	peers := flag.String("peers", "bin/peers", "folder with etcd and kube-apiserver; empty: measure kelson alone")
	docs := flag.String("docs", "", "page whose part is replaced by the table")
	flag.IntVar(&o.rounds, "rounds", 9, "rounds of starts of kelson; the peers get a third of these")
	flag.IntVar(&o.objects, "objects", 10_000, "ConfigMaps, and custom resources, that are created")
	flag.DurationVar(&o.idle, "idle", 5*time.Second, "time without requests before memory is read")
	flag.Parse()
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.run(ctx, *kelson, *peers, *docs); err != nil {
		fmt.Fprintln(os.Stderr, "dropin:", err)
		os.Exit(1)
	}
}

func (o *options) run(ctx context.Context, kelson, peers, docs string) error {
	scratch, err := os.MkdirTemp("", "kelson-dropin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	out, err := exec.CommandContext(ctx, kelson, "envtest", "--print-path", filepath.Join(scratch, "assets")).Output()
	if err != nil {
		return fmt.Errorf("kelson envtest: %w", err)
	}
	sides := []side{{"kelson", strings.TrimSpace(string(out)), o.rounds}}
	if peers != "" {
		assets, err := filepath.Abs(peers)
		if err != nil {
			return err
		}
		sides = append(sides, side{"kube-apiserver, etcd", assets, max(1, o.rounds/3)})
	}
	var all []figures
	for _, s := range sides {
		f, err := o.measure(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		all = append(all, f)
	}
	text := report(sides, all)
	fmt.Print(text)
	if docs == "" {
		return nil
	}
	if len(all) < 2 {
		return fmt.Errorf("-docs needs -peers")
	}
	return section.Replace(docs, begin, end, "\n"+text)
}

func (o *options) measure(ctx context.Context, s side) (f figures, err error) {
	var starts, stops, ownStarts, ownStops []time.Duration
	for round := range s.rounds {
		env, start, err := startEnvtest(s.assets)
		if err != nil {
			return f, err
		}
		ownStart, ownStop, err := ownTime(ctx)
		if err == nil && round == 0 {
			f.idle, f.full, err = o.weigh(ctx, env.Config)
		}
		began := time.Now()
		if stopErr := env.Stop(); err == nil {
			err = stopErr
		}
		if err != nil {
			return f, err
		}
		starts, stops = append(starts, start), append(stops, time.Since(began))
		ownStarts, ownStops = append(ownStarts, ownStart), append(ownStops, ownStop)
	}
	f.start, f.stop, f.ownStart, f.ownStop = median.Of(starts), median.Of(stops), median.Of(ownStarts), median.Of(ownStops)
	return f, nil
}
