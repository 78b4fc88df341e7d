// Command lane measures kelson explore on operators in virtual time, and writes a table: plans a
// minute, processor time of a plan on both sides, time to the first plan, and memory.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"kelson.dev/test/child"
	"kelson.dev/test/section"
)

const (
	begin = "<!-- bench-explore -->"
	end   = "<!-- end of bench-explore -->"
)

func main() {
	kelson := flag.String("kelson", "bin/kelson", "the kelson binary")
	docs := flag.String("docs", "", "file whose table is replaced")
	limit := flag.Duration("for", 30*time.Second, "how long to explore each operator")
	flag.Parse()
	table := "\n| operator | plans a minute | processor time of a plan: kelson, operator | " +
		"first plan: first build with the agent, built before | memory: kelson, operator |\n|---|---|---|---|---|\n"
	for _, dir := range flag.Args() {
		row, err := measure(*kelson, dir, *limit)
		if err != nil {
			log.Fatalf("%s: %v", dir, err)
		}
		fmt.Print(row)
		table += row
	}
	if *docs != "" {
		if err := section.Replace(*docs, begin, end, table); err != nil {
			log.Fatal(err)
		}
	}
}

// measure returns the row of an operator.
func measure(kelson, dir string, limit time.Duration) (string, error) {
	cache, err := os.MkdirTemp("", "bench-explore-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(cache)
	gocache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		return "", err
	}
	// The user's cache has no program of kelson, but that of the go command has the project's own
	// build.
	env := append(os.Environ(), "XDG_CACHE_HOME="+cache, "GOCACHE="+strings.TrimSpace(string(gocache)))
	build := exec.Command("go", "build", "-o", filepath.Join(cache, "operator"), "./cmd")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	explore := func(args ...string) (*observed, error) {
		return run(env, kelson, append([]string{"explore", dir, "--generate=false"}, args...)...)
	}
	// A replay ends after the runs without faults and one plan.
	first, err := explore("--plan", "order 1")
	if err != nil {
		return "", err
	}
	again, err := explore("--plan", "order 1")
	if err != nil {
		return "", err
	}
	all, err := explore("--for", limit.String(), "--output", "json")
	if err != nil {
		return "", err
	}
	var result struct {
		Plans   int
		Seconds float64
		Alarms  []any
	}
	if err := json.Unmarshal(all.out, &result); err != nil || result.Plans == 0 {
		return "", fmt.Errorf("the result of kelson explore: %v: %s", err, all.out)
	}
	plan := func(d time.Duration) time.Duration { return d / time.Duration(result.Plans) }
	return fmt.Sprintf("| %s | %.0f | %d ms, %d ms | %.1f s, %.1f s | %d MiB, %d MiB |\n",
		dir, float64(result.Plans)/result.Seconds*60,
		plan(all.self-again.self).Milliseconds(), plan(all.children-again.children).Milliseconds(),
		first.took.Seconds(), again.took.Seconds(), all.memory>>20, all.operator>>20), nil
}

// observed holds what a command has used.
type observed struct {
	out            []byte
	took           time.Duration
	self, children time.Duration // processor time
	// the largest resident sets: the sum of the processes of kelson, and one of the operator
	memory, operator int64

	kelson  map[int]child.Usage // of the processes of kelson
	divided bool                // there were several
}

// run runs a command, and looks at its processes meanwhile.
func run(env []string, name string, args ...string) (*observed, error) {
	var o observed
	var out, errOut bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, &out, &errOut
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	o.kelson = map[int]child.Usage{}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			o.took, o.out = time.Since(began), out.Bytes()
			// The exit code is 1 if there is an alarm.
			if failed := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &failed) || out.Len() == 0) {
				return nil, fmt.Errorf("%s: %w: %s%s", cmd, err, out.Bytes(), errOut.Bytes())
			}
			return &o, nil
		case <-time.After(100 * time.Millisecond):
			o.look(cmd.Process.Pid)
		}
	}
}

// look reads the processor time and the memory of kelson's processes and of their children.
func (o *observed) look(pid int) {
	o.lookAt(pid)
	for _, id := range childrenOf(pid) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id)) // it may have ended
		if bytes.Contains(line, []byte("\x00--share\x00")) {
			o.divided = true
			o.lookAt(id)
		}
	}
	o.self, o.children, o.memory = 0, 0, 0
	for id, used := range o.kelson {
		o.self += used.CPU
		o.memory += used.Peak
		if id != pid || !o.divided { // otherwise its children are in the map
			o.children += used.Children
		}
	}
}

// lookAt reads what a process of kelson uses, and its processes of the operator.
func (o *observed) lookAt(pid int) {
	used, err := child.UsageOf(pid)
	if err != nil {
		return // it has ended
	}
	o.kelson[pid] = used
	for _, id := range childrenOf(pid) {
		// The programs that kelson explore builds have this name.
		if name, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", id)); err == nil && filepath.Base(name) == "virtual" {
			used, _ := child.UsageOf(id) // it may have ended
			o.operator = max(o.operator, used.Peak)
		}
	}
}

// childrenOf returns the children of a process.
func childrenOf(pid int) (ids []int) {
	// a list for each thread
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil
	}
	for _, list := range lists {
		children, _ := os.ReadFile(list) // the thread may have ended
		for _, id := range strings.Fields(string(children)) {
			if n, err := strconv.Atoi(id); err == nil {
				ids = append(ids, n)
			}
		}
	}
	return ids
}
