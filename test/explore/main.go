// Command explore runs kelson explore on the operators in a folder, one after the other, and
// replaces the table of docs/internals/explore.md.
//
//	go run ./test/explore -kelson bin/kelson -docs docs/internals/explore.md DIR
//
// The file operators.yaml in DIR is a list of operators:
//
//	# the name and the version in the table
//	- name: example/web-operator
//	  version: v1.2.0
//	  # the folder of the project in DIR; it may have an explore.yaml
//	  folder: web-operator
//	  # of kelson explore: flags, and the arguments of the operator after --
//	  args: [--process, --, --leader-elect=false]
//	  # for the table: the work that was needed, and what the alarms mean
//	  effort: a sample
//	  findings: none
//
// It neither downloads nor changes the projects. An alarm is not a failure.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"kelson.dev/test/section"
)

// project is an operator in the folder.
type project struct {
	Name     string   `json:"name"`
	Version  string   `json:"version"`
	Folder   string   `json:"folder"`
	Args     []string `json:"args"`
	Effort   string   `json:"effort"`
	Findings string   `json:"findings"`
}

// result contains the fields in the output of kelson explore that the table shows.
type result struct {
	Plans, Points, States, Unequal, Unconfirmed int
	OneFault                                    int
	Seconds                                     float64
	Alarms                                      []struct{ Oracle, What, Detail, Plan string }
}

const (
	begin = "<!-- operators -->\n"
	end   = "<!-- end of operators -->"
)

func main() {
	kelson := flag.String("kelson", "bin/kelson", "kelson's binary")
	docs := flag.String("docs", "", "page in which the table is replaced")
	limit := flag.Duration("for", 2*time.Minute, "how long each operator is explored")
	only := flag.String("only", "", "explore only the operator in this folder, and do not write the table")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := errors.New("pass one argument: the folder of the operators")
	if flag.NArg() == 1 {
		err = run(ctx, *kelson, flag.Arg(0), *docs, *limit, *only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "explore:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kelson, dir, docs string, limit time.Duration, only string) error {
	kelson, err := filepath.Abs(kelson)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(dir, "operators.yaml"))
	if err != nil {
		return err
	}
	var all []project
	if err := yaml.UnmarshalStrict(data, &all); err != nil {
		return fmt.Errorf("operators.yaml: %w", err)
	}
	var table bytes.Buffer
	for _, p := range all {
		if only != "" && p.Folder != only {
			continue
		}
		r, err := p.explore(ctx, kelson, filepath.Join(dir, p.Folder), limit)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		fmt.Printf("%s: %d plans in %.0f s, %d points, %d states, %d alarms, %d not confirmed\n", p.Name, r.Plans,
			r.Seconds, r.Points, r.States, len(r.Alarms), r.Unconfirmed)
		for _, a := range r.Alarms {
			fmt.Printf("  %s (%s) %s\n    %s\n", a.What, a.Oracle, strings.ReplaceAll(a.Detail, "\n", "\n    "), a.Plan)
		}
		lane := "virtual time"
		if slices.Contains(p.Args, "--process") || slices.Contains(p.Args, "--binary") {
			lane = "process"
		}
		fmt.Fprintf(&table, "| %s %s | %s | `%s` | %s | %d in %.0f s | %d | %d | %d | %d, %d not confirmed | %s |\n",
			p.Name, p.Version, lane,
			p.command(limit), p.Effort, r.Plans, r.Seconds, r.OneFault, r.Points, r.States, len(r.Alarms),
			r.Unconfirmed, cmp.Or(p.Findings, "none"))
	}
	if docs == "" || only != "" {
		return nil
	}
	const head = "| operator | lane | command | effort | plans run | plans of one fault | points | states | alarms | findings |\n|---|---|---|---|---|---|---|---|---|---|\n"
	return section.Replace(docs, begin, end, head+table.String())
}

// command returns the command that a user types in the folder of the project.
func (p project) command(limit time.Duration) string {
	return strings.Join(append([]string{"kelson explore --for", limit.String()}, p.Args...), " ")
}

// explore runs kelson explore in the folder of a project.
func (p project) explore(ctx context.Context, kelson, dir string, limit time.Duration) (r result, err error) {
	args := append([]string{"explore", "--generate=false", "--output", "json", "--for", limit.String()}, p.Args...)
	cmd := exec.CommandContext(ctx, kelson, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod -buildvcs=false")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	err = cmd.Run()
	if json.Unmarshal(out.Bytes(), &r) != nil || r.Plans == 0 {
		return r, fmt.Errorf("kelson explore: %w\n%s", err, log.Bytes())
	}
	return r, nil // the exit code means that there were alarms
}
