package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// stressed says how stress runs programs.
type stressed struct {
	runs       int
	processors []int // values of GOMAXPROCS
	logs       string
	args       []string // of each program
}

// stress compiles each test program once and runs it several times with each number of processors,
// while other threads keep the machine's processors busy.
func stress(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("stress", flag.ContinueOnError)
	runs := flags.Int("runs", 20, "runs of each program with each number of processors")
	processors := flags.String("processors", "1,2,8", "values of GOMAXPROCS, separated by commas")
	busy := flags.Int("busy", runtime.NumCPU(), "threads that only take processor time")
	parallel := flags.Int("parallel", runtime.NumCPU(), "programs that run at once")
	short := flags.Bool("short", false, "skip long tests")
	pattern := flags.String("run", "", "run only tests that match")
	logs := flags.String("logs", "bin/stress", "folder for the output of failed runs")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s := stressed{runs: *runs, args: []string{"-test.paniconexit0", "-test.timeout=40m"}}
	for text := range strings.SplitSeq(*processors, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-processors %s: %q is not a number of processors", *processors, text)
		}
		s.processors = append(s.processors, n)
	}
	if *runs < 1 || *busy < 0 || *parallel < 1 || flags.NArg() == 0 {
		return errors.New(usage)
	}
	if *short {
		s.args = append(s.args, "-test.short")
	}
	if *pattern != "" {
		s.args = append(s.args, "-test.run="+*pattern)
	}
	var err error
	if s.logs, err = filepath.Abs(*logs); err != nil {
		return err
	}
	packages, err := testedPackages(flags.Args())
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	defer keepBusy(*busy)()
	return s.all(ctx, packages, *parallel, stdout)
}

// keepBusy starts threads that only take processor time. The returned function stops them.
func keepBusy(threads int) (stop func()) {
	var done atomic.Bool
	runtime.GOMAXPROCS(runtime.NumCPU() + threads) // otherwise they delay stress itself
	for range threads {
		go func() {
			for !done.Load() {
			}
		}()
	}
	return func() { done.Store(true) }
}

// tested is a package with tests.
type tested struct{ path, dir string }

func testedPackages(patterns []string) ([]tested, error) {
	out, err := goList("-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}\t{{.Dir}}{{end}}", patterns)
	if err != nil {
		return nil, err
	}
	var found []tested
	for line := range strings.Lines(out) {
		if path, dir, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
			found = append(found, tested{path, dir})
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no packages with tests match %s", strings.Join(patterns, " "))
	}
	return found, nil
}

// goList runs go list with the flags and patterns.
func goList(flag, value string, patterns []string) (string, error) {
	var problem bytes.Buffer
	cmd := exec.Command("go", append([]string{"list", flag, value}, patterns...)...)
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w: %s", err, problem.String())
	}
	return string(out), nil
}

// all runs the programs of the packages and prints a line for each, then the failed ones again.
func (s stressed) all(ctx context.Context, packages []tested, parallel int, stdout io.Writer) error {
	work, err := os.MkdirTemp("", "stress")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var (
		printing sync.Mutex
		failed   []string
		done     int
		queue    = make(chan tested)
		workers  sync.WaitGroup
	)
	for i := range parallel {
		workers.Go(func() {
			for p := range queue {
				line, ok := s.program(ctx, p, filepath.Join(work, strconv.Itoa(i)+".test"))
				printing.Lock()
				done++
				fmt.Fprintln(stdout, line)
				if !ok {
					failed = append(failed, line)
				}
				printing.Unlock()
			}
		})
	}
	for _, p := range packages {
		if ctx.Err() != nil {
			break
		}
		queue <- p
	}
	close(queue)
	workers.Wait()
	slices.Sort(failed)
	fmt.Fprintf(stdout, "\nstress: programs: %d of %d, failed: %d\n", done, len(packages), len(failed))
	for _, line := range failed {
		fmt.Fprintln(stdout, line)
	}
	if len(failed) > 0 || ctx.Err() != nil {
		return errFailed
	}
	return nil
}

// program compiles the test program of a package and runs it. It returns a line like go test's.
func (s stressed) program(ctx context.Context, p tested, binary string) (line string, ok bool) {
	if out, err := exec.Command("go", "test", "-c", "-o", binary, p.path).CombinedOutput(); err != nil {
		return fmt.Sprintf("FAIL\t%s [build failed: %v]\n%s", p.path, err, out), false
	}
	defer os.Remove(binary)
	begin, runs := time.Now(), 0
	failures := map[string]int{} // number of runs in which a test failed, with so many processors
	failed := 0
	for i := range s.runs {
		// An interrupted run has tried all numbers of processors.
		for _, n := range s.processors {
			if ctx.Err() != nil {
				break
			}
			runs++
			tests, err := s.once(p, binary, n, i)
			if err == nil {
				continue
			}
			failed++
			for _, name := range tests {
				failures[fmt.Sprintf("%s (GOMAXPROCS=%d)", name, n)]++
			}
		}
	}
	took := time.Since(begin).Round(10 * time.Millisecond)
	if failed == 0 {
		return fmt.Sprintf("ok  \t%s\t%d runs in %v", p.path, runs, took), true
	}
	var counts []string
	for name, n := range failures {
		counts = append(counts, fmt.Sprintf("%s: %d", name, n))
	}
	slices.Sort(counts)
	return fmt.Sprintf("FAIL\t%s\t%d of %d runs in %v: %s", p.path, failed, runs, took, strings.Join(counts, ", ")),
		false
}

// once runs a program in its package's folder, as go test does. If the run fails, once writes its
// output to a file and returns the failed tests.
func (s stressed) once(p tested, binary string, processors, i int) ([]string, error) {
	var out bytes.Buffer
	cmd := exec.Command(binary, s.args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "PWD="+p.dir, "GOMAXPROCS="+strconv.Itoa(processors))
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err == nil {
		return nil, nil
	}
	// readOutput expects the line with which the go command ends the output of a program.
	text := out.String() + "\nFAIL\t" + p.path + "\t0s\n"
	res, readErr := readOutput(strings.NewReader(text))
	if readErr != nil {
		return nil, readErr
	}
	name := fmt.Sprintf("%s-%d-%d.log", strings.ReplaceAll(p.path, "/", "_"), processors, i+1)
	if err := os.MkdirAll(s.logs, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(s.logs, name), []byte(text), 0o644); err != nil {
		return nil, err
	}
	var tests []string
	for _, f := range res.failed {
		tests = append(tests, f.tests...)
	}
	if len(tests) == 0 {
		tests = []string{fmt.Sprintf("the program (%v)", err)}
	}
	return tests, err
}
