package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
)

// rerun runs go test with the arguments, then runs each failed test program a second time, alone.
// A program that passes then is reported as FLAKY and is not a failure. Packages that do not
// compile are not repeated. The output of go test is copied line by line, so that tools can read
// its ok and FAIL lines; the lines of rerun follow it.
func rerun(args []string, stdout, stderr io.Writer) error {
	flags, packages := splitPackages(args)
	if len(packages) == 0 {
		return errors.New("rerun: name packages at the end, each beginning with a dot")
	}
	// The go command also gets the signal, ends its tests and prints what they wrote.
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	first, err := goTest(flags, packages, stdout, stderr)
	if err != nil || first.passed {
		return err
	}
	if interrupted.Err() != nil || first.broken || len(first.failed) == 0 {
		return errFailed
	}
	fmt.Fprintf(stdout, "\nrerun: test programs that failed: %d. Each runs a second time, alone:\n", len(first.failed))
	var names []string
	for _, p := range first.failed {
		names = append(names, p.path)
	}
	second, err := goTest(append(flags, "-count=1", "-p=1"), names, stdout, stderr)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout)
	report(stdout, first, second)
	if !second.passed || interrupted.Err() != nil {
		return errFailed
	}
	return nil
}

// report writes a line for each program that failed in the first run.
func report(w io.Writer, first, second result) {
	again := map[string]program{}
	for _, p := range second.failed {
		again[p.path] = p
	}
	for _, p := range first.failed {
		if repeated, ok := again[p.path]; ok {
			fmt.Fprintf(w, "FAILED TWICE: %s: %s; second run: %s\n", p.path, p.what(), repeated.what())
		} else if second.broken {
			fmt.Fprintf(w, "FAILED: %s: %s; the second run did not compile\n", p.path, p.what())
		} else {
			fmt.Fprintf(w, "FLAKY: %s: %s; the second run passed\n", p.path, p.what())
		}
	}
}

// splitPackages separates the flags of go test from the packages: the arguments at the end that
// begin with a dot.
func splitPackages(args []string) (flags, packages []string) {
	n := len(args)
	for n > 0 && strings.HasPrefix(args[n-1], ".") {
		n--
	}
	return args[:n:n], args[n:]
}

// program is a failed test program.
type program struct {
	path  string   // import path of the package
	tests []string // failed tests, without the tests that contain them
}

// what names the failed tests.
func (p program) what() string {
	if len(p.tests) == 0 {
		return "failed outside of a test"
	}
	return strings.Join(p.tests, ", ")
}

// result is read from the output of go test.
type result struct {
	passed bool
	broken bool      // a package or its test did not compile, or does not exist
	failed []program // in the order of the output
}

// goTest runs go test and copies its output. The error is nil if it ran, whatever the result.
func goTest(flags, packages []string, stdout, stderr io.Writer) (result, error) {
	cmd := exec.Command("go", append(append([]string{"test"}, flags...), packages...)...)
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return result{}, err
	}
	if err := cmd.Start(); err != nil {
		return result{}, err
	}
	r, readErr := readOutput(io.TeeReader(out, stdout))
	err = cmd.Wait()
	r.passed = err == nil
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return result{}, err
	}
	return r, readErr
}

var (
	failedTest    = regexp.MustCompile(`^\s*--- FAIL: (\S+) \(`)
	runningTest   = regexp.MustCompile(`^\t+(Test\S+|Example\S*|Fuzz\S+) \(`)
	failedProgram = regexp.MustCompile(`^FAIL\t(\S+)(?:\t|( \[.*failed\])?$)`)
	passedProgram = regexp.MustCompile(`^ok  \t`)
)

// readOutput reads the output of go test without -json. The tests of a program precede its line.
func readOutput(r io.Reader) (result, error) {
	var res result
	var tests []string
	timedOut := false
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		line = strings.TrimSuffix(line, "\n")
		switch {
		case failedTest.MatchString(line):
			tests = append(tests, failedTest.FindStringSubmatch(line)[1])
		case strings.HasPrefix(line, "panic: test timed out"):
			timedOut = true
		case timedOut && runningTest.MatchString(line): // the panic lists the tests that ran
			tests = append(tests, runningTest.FindStringSubmatch(line)[1]+" (timed out)")
		case failedProgram.MatchString(line):
			if m := failedProgram.FindStringSubmatch(line); m[2] != "" {
				res.broken = true
			} else {
				res.failed = append(res.failed, program{m[1], leaves(tests)})
			}
			tests, timedOut = nil, false
		case passedProgram.MatchString(line):
			tests, timedOut = nil, false
		}
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return res, err
		}
	}
}

// leaves drops tests of which a subtest is in the list.
func leaves(tests []string) []string {
	var kept []string
	for _, name := range tests {
		parent := false
		for _, other := range tests {
			parent = parent || strings.HasPrefix(other, name+"/")
		}
		if !parent {
			kept = append(kept, name)
		}
	}
	return kept
}
