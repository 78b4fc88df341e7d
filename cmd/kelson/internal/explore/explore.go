// Package explore implements kelson explore.
package explore

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/exit"
	"kelson.dev/cmd/kelson/internal/project"
)

// options are the flags of kelson explore.
type options struct {
	limit time.Duration
	seed  uint64
	plan  string
	tests string // the folder for tests of the alarms; "" for none
	gens  project.Generators
}

// Command returns kelson explore.
func Command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "explore [DIR]",
		Short: "Search for faults that a project's operator does not survive",
		Long: `Search for faults that a project's operator does not survive.

The command runs the project's generators. Then it runs the operator in a process
of its own again and again, each time on a new control plane and in virtual time.
A user creates the samples of config/samples, waits until the operator is quiet,
and deletes them. Meanwhile, a plan of faults happens: the operator's process is
killed before or after a write, a response is lost, watches are late, and so on.

If what the operator does under a plan differs from what it does without faults,
that is an alarm. It is printed with the shortest plan that causes it and the
command that runs this plan again. The command fails if there is an alarm.

With --export, it writes a Go test for each alarm to the project. The test runs
the plan again, so it fails until the bug is fixed. It needs this program, in PATH
or in the environment variable KELSON, and no cluster. Beside the test, a file in
JSON has the steps of the run and when the failure became inevitable.

The file explore.yaml in the project's folder can name other inputs than the
samples, and invariants in CEL.

The project needs no code for this. Its main package must call operator.Main, or
create a manager of controller-runtime: the command replaces the functions of that
library that read the configuration, create the manager and wait for signals. The
operator has the rights of config/rbac. Its webhooks are not called.`,
		Example: `  kelson explore --for 2m
  kelson explore --plan 'kill-after create secrets default/web-key #1'
  kelson explore --export && kelson test`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if o.limit <= 0 {
				return fmt.Errorf("--for %v: want a positive duration", o.limit)
			}
			return run(c, project.Folder(args), o)
		},
	}
	c.Flags().DurationVar(&o.limit, "for", 30*time.Second, "how long to explore; the build and the runs without faults come before")
	c.Flags().Uint64Var(&o.seed, "seed", 0, "number that selects the random plans")
	c.Flags().StringVar(&o.plan, "plan", "", "run only this plan, which an alarm has named")
	c.Flags().StringVar(&o.tests, "export", "", "write each alarm as a Go test to this folder of the project; without a value, to "+testFolder)
	c.Flags().Lookup("export").NoOptDefVal = testFolder
	o.gens.AddFlags(c.Flags())
	o.gens.AddSkipFlag(c.Flags())
	return c
}

func run(c *cobra.Command, dir string, o options) error {
	p, err := project.Open(dir)
	if err != nil {
		return err
	}
	if p.Server {
		return fmt.Errorf("%s is a custom API server: kelson explore runs operators", p.Dir)
	}
	if err := project.Generate(c, p.Dir, o.gens); err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "kelson-explore-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	binary, err := build(c.Context(), p, temp)
	if err != nil {
		return err
	}
	again := "kelson explore"
	if dir != "." {
		again += " " + dir
	}
	out := &printer{out: c.OutOrStdout(), again: again}
	if o.tests != "" {
		out.tests = &exporter{project: p.Dir, folder: o.tests}
	}
	return explore(c.Context(), p, binary, o, out)
}

// message is explore.Message of kelson.dev/lab/explore. This program does not import that package,
// which imports the package testing.
type message struct {
	Kind, Text, Plan, Finding string
	Alarms                    int
	Failure                   json.RawMessage
}

// explore runs the test program and prints its messages.
func explore(ctx context.Context, p *project.Project, binary string, o options, out *printer) error {
	messages, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer messages.Close()
	cmd := exec.CommandContext(ctx, binary, "-test.run=^"+testName+"$", "-test.timeout=0")
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), "KELSON_EXPLORE_REPORT=3", "KELSON_EXPLORE_FOR="+o.limit.String(),
		"KELSON_EXPLORE_SEED="+strconv.FormatUint(o.seed, 10), "KELSON_EXPLORE_PLAN="+o.plan)
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	var output lastBytes
	cmd.Stdout, cmd.Stderr = &output, &output
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return err
	}
	last, readErr := out.follow(messages)
	err = errors.Join(readErr, cmd.Wait())
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case last.Kind == "error":
		return errors.New(last.Text)
	case last.Kind != "done":
		return fmt.Errorf("the operator's process ended: %w\n%s", err, bytes.TrimSpace(output))
	case last.Alarms > 0:
		return exit.Code(1)
	}
	return nil
}

// lastBytes keeps the end of what is written to it.
type lastBytes []byte

// Write implements io.Writer.
func (l *lastBytes) Write(p []byte) (int, error) {
	const kept = 64 << 10
	if *l = append(*l, p...); len(*l) > 2*kept {
		*l = append((*l)[:0], (*l)[len(*l)-kept:]...)
	}
	return len(p), nil
}

// printer prints the messages of the test program, and exports the alarms.
type printer struct {
	out   io.Writer
	again string    // the command without --plan
	tests *exporter // nil: alarms are not exported
}

// follow prints the messages until their end, and returns the last one.
func (p *printer) follow(messages io.Reader) (last message, err error) {
	lines := json.NewDecoder(bufio.NewReader(messages))
	for {
		var m message
		if err := lines.Decode(&m); err == io.EOF {
			return last, nil
		} else if err != nil {
			return last, fmt.Errorf("read messages: %w", err)
		}
		switch last = m; m.Kind {
		case "progress", "done":
			fmt.Fprintln(p.out, m.Text)
		case "alarm":
			fmt.Fprintf(p.out, "\nALARM: %sreplay: %s --plan '%s'\n", m.Text, p.again, m.Plan)
			if p.tests != nil {
				what, err := p.tests.export(m)
				if err != nil {
					return last, fmt.Errorf("export an alarm: %w", err)
				}
				fmt.Fprintln(p.out, what)
			}
			fmt.Fprintln(p.out)
		}
	}
}

// build writes the test program and compiles it to a file in the folder temp. It changes nothing in
// the project: the go command reads the program from temp by an overlay.
func build(ctx context.Context, p *project.Project, temp string) (binary string, err error) {
	overlay, err := writeProgram(p, temp)
	if err != nil {
		return "", err
	}
	work, err := workspace(ctx, p, temp)
	if err != nil {
		return "", err
	}
	binary = filepath.Join(temp, "explore.test")
	// -mod=readonly replaces -mod=mod in GOFLAGS, which workspaces do not allow. -w leaves out the
	// tables of debuggers, which take long to write.
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-mod=readonly", "-vet=off", "-ldflags=-w", "-overlay="+overlay, "-o="+binary, ".")
	cmd.Dir, cmd.Env = p.Main, append(os.Environ(), work...)
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build operator: %w\n%s", err, bytes.TrimSpace(output))
	}
	return binary, nil
}
