package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"sync"
)

// runner runs each spec in its own process, so that a spec that hangs can be killed alone.
type runner struct {
	options
	kubeconfig, kubectl string
}

// serial are the specs that the suite marks [Serial], because they count or fill the whole cluster.
var serial = regexp.MustCompile(`^\[sig-api-machinery\] (Garbage collector|Namespaces) `)

func (r *runner) run(ctx context.Context, names []string) results {
	out := make(results, len(names))
	one := func(i int) {
		out[i] = r.spec(ctx, i, names[i])
		log.Print(out[i])
	}
	queue := make(chan int)
	var workers sync.WaitGroup
	for range r.parallel {
		workers.Go(func() {
			for i := range queue {
				one(i)
			}
		})
	}
	for i, name := range names {
		if !serial.MatchString(name) {
			queue <- i
		}
	}
	close(queue)
	workers.Wait()
	for i, name := range names {
		if serial.MatchString(name) {
			one(i)
		}
	}
	return out
}

func (r *runner) spec(ctx context.Context, i int, name string) result {
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	file := filepath.Join(r.work, fmt.Sprintf("spec-%02d", i+1))
	if got, err := readReport(file+".xml", name); err == nil && got.outcome != notRun {
		return got
	}
	output, err := os.Create(file + ".log")
	if err != nil {
		return result{name, notRun, err.Error()}
	}
	defer output.Close()
	c := command(ctx, r.suite,
		"--provider=skeleton", "--allowed-not-ready-nodes=-1", "--minStartupPods=-1", "--num-nodes=1",
		"--dump-logs-on-failure=false",
		"--kubeconfig="+r.kubeconfig, "--kubectl-path="+r.kubectl, "--test.timeout=0",
		"--ginkgo.focus="+focus(name), "--ginkgo.no-color", "--ginkgo.v", "--ginkgo.junit-report="+file+".xml")
	c.Stdout, c.Stderr = output, output
	// An error of the process only means that a spec failed; the report says why.
	ended := c.Run()
	got, err := readReport(file+".xml", name)
	switch {
	case err != nil:
		got.reason = oneLine(errors.Join(ended, err).Error())
	case got.outcome == failed && errors.Is(ctx.Err(), context.DeadlineExceeded):
		got.reason = fmt.Sprintf("did not end within %s", r.limit)
	}
	return got
}
