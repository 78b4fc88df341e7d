// Package explore implements kelson explore.
package explore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"kelson.dev/cmd/kelson/internal/child"
	"kelson.dev/cmd/kelson/internal/exit"
	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/lab/explore"
)

// options are the flags of kelson explore.
type options struct {
	limit    time.Duration
	seed     uint64
	plan     string
	tests    string // the folder for tests of the alarms; "" for none
	failure  string // the file for the first alarm; "" for none
	binary   string
	process  bool
	parallel int
	args     []string // of the operator's process
	format   output.Format
	gens     project.Generators
}

// processLimit is the default of --for if the operator runs as a process.
const processLimit = 2 * time.Minute

// Command returns kelson explore.
func Command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "explore [DIR] [-- ARG…]",
		Short: "Search for faults that an operator does not survive",
		Long: `Search for faults that an operator does not survive.

The command runs the project's generators. Then it runs the operator again and
again, each time on a new control plane and in virtual time. A user creates the
samples of config/samples, waits until the operator is quiet, and deletes them.
Meanwhile, kelson injects a plan of faults: it kills the operator before or after
a write, loses a response, delays watches, and so on.

If the result under a plan differs from the result without faults, the command
raises an alarm: it prints the shortest plan that causes the difference, and the
command that runs this plan again. It fails if there is an alarm.

With --export, it writes a Go test for each alarm to the project. The test runs
the plan again, so it fails until the bug is fixed. It needs no cluster, but it runs
this program, from PATH or from the environment variable KELSON. A JSON file next to
the test, and the file of --failure, contain the steps of the run, the steps of the
run without faults, and the step at which the failure became inevitable. kelson
console --failure shows them.

The file explore.yaml in the project's folder can replace the samples by other
inputs and config/crd/bases and config/rbac by other folders, and can add
invariants in CEL.

The project needs no code for this. Its main package must call operator.Main, or
create a manager of controller-runtime: the command replaces the functions of that
library that read the configuration, create the manager and wait for signals. The
operator has the rights of config/rbac. Its webhooks are called if config/webhook
configures them.

If the operator cannot be linked with the control plane in this way, or with
--process, the command runs the project's program as it is, as a process. With
--binary it runs any program, in any language, and DIR only has the manifests. A
process runs in real time: a kill is a SIGKILL, several runs happen at the same
time, and further runs confirm each alarm. The program finds the control plane by
KUBECONFIG in its environment or $KUBECONFIG in its arguments, which follow --. If
kelson runs as root on Linux, each process has its own network.`,
		Example: `  kelson explore --for 2m
  kelson explore --plan 'kill-after create secrets default/web-key #1'
  kelson explore --export && kelson test
  kelson explore --binary ./manager -- --leader-elect=false
  kelson explore --output json --failure failure.json`,
		RunE: func(c *cobra.Command, args []string) error {
			own, rest := project.SplitArgs(c, args)
			if len(own) > 1 {
				return fmt.Errorf("unexpected argument %q: put arguments of the operator after --", own[1])
			}
			o.args = rest
			switch {
			case o.limit <= 0:
				return fmt.Errorf("--for %v: want a positive duration", o.limit)
			case o.parallel < 0:
				return fmt.Errorf("--parallel %d: want a positive number", o.parallel)
			case o.binary != "" && o.process:
				return errors.New("--binary and --process exclude each other: --process builds the project's program")
			}
			if _, err := explore.ParsePlan(o.plan); err != nil {
				return fmt.Errorf("--plan: %w", err)
			}
			return run(c, project.Folder(own), o)
		},
	}
	c.Flags().DurationVar(&o.limit, "for", 30*time.Second, "how long to explore, without the build and the runs without faults. For a process, the default is "+processLimit.String())
	c.Flags().Uint64Var(&o.seed, "seed", 0, "seed of the random plans")
	c.Flags().StringVar(&o.plan, "plan", "", "run only this plan, as printed by an alarm")
	c.Flags().StringVar(&o.tests, "export", "", "write each alarm as a Go test to this folder of the project; without a value, to "+testFolder)
	c.Flags().Lookup("export").NoOptDefVal = testFolder
	c.Flags().StringVar(&o.failure, "failure", "", "write the first alarm to this file in JSON, with its run and the run without faults")
	c.Flags().StringVar(&o.binary, "binary", "", "run this program as a process instead of the project's operator")
	c.Flags().BoolVar(&o.process, "process", false, "run the project's program as a process, without changes, even if it can be linked")
	c.Flags().IntVar(&o.parallel, "parallel", 0, "maximum number of concurrent runs of a process (default: two for each processor)")
	o.format.AddFlag(c)
	o.gens.AddFlags(c.Flags())
	o.gens.AddSkipFlag(c.Flags())
	return c
}

func run(c *cobra.Command, dir string, o options) error {
	p := &printer{out: c.OutOrStdout(), errOut: c.ErrOrStderr(), command: "kelson explore", format: o.format, failure: o.failure}
	if dir != "." {
		p.command += " " + quote(dir)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if o.tests != "" {
		p.tests = &exporter{project: abs, folder: o.tests}
	}
	if o.binary != "" {
		program, err := filepath.Abs(o.binary)
		if err != nil {
			return err
		}
		p.asProcess([]string{"--binary", o.binary}, []string{"--binary", program}, o.args)
		return exploreProcess(c, abs, program, o, p)
	}
	return exploreProject(c, dir, o, p)
}

// exploreProject explores the operator of a project.
func exploreProject(c *cobra.Command, dir string, o options, out *printer) error {
	p, err := project.Open(dir)
	if err != nil {
		return err
	}
	if p.Server {
		return fmt.Errorf("%s is a custom API server: kelson explore runs operators", p.Dir)
	}
	if o.format != output.Text {
		c.SetOut(out.errOut) // the generators' messages are not part of the document
	}
	if err := project.Generate(c, p.Dir, o.gens); err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "kelson-explore-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if !o.process {
		progress := output.NewProgress(out.errOut)
		progress.Step("building the operator with a control plane")
		binary, release, err := build(c.Context(), p, temp, false)
		progress.Done()
		defer release()
		switch {
		case err == nil && len(o.args) > 0:
			return errors.New("arguments of the operator need --process: linked with the control plane, the operator has no separate process")
		case err == nil:
			return exploreLinked(c.Context(), p, binary, o, out)
		case c.Context().Err() != nil:
			return c.Context().Err()
		}
		fmt.Fprintf(out.errOut, "the operator cannot be linked with the control plane, so it runs as a process; the reason: %s\n", strings.TrimSpace(err.Error()))
	}
	program := filepath.Join(temp, "operator")
	if err := p.Build(c.Context(), program); err != nil {
		return err
	}
	out.asProcess([]string{"--process"}, []string{"--process"}, o.args)
	return exploreProcess(c, p.Dir, program, o, out)
}

// exploreProcess explores a program with the manifests of a folder.
func exploreProcess(c *cobra.Command, dir, program string, o options, out *printer) error {
	// Kubernetes' controllers log errors that they resolve with a retry. Faults cause many.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	s, err := explore.Project(dir, nil)
	if err != nil {
		return err
	}
	s.Binary = &explore.Binary{Path: program, Args: o.args, Dir: dir, Parallel: o.parallel}
	if !c.Flags().Changed("for") {
		o.limit = processLimit
	}
	ctx, stop := context.WithCancel(c.Context())
	defer stop()
	var failed error
	explore.DriveBinary(ctx, s, o.plan, explore.Options{For: o.limit, Seed: o.seed}, func(m explore.Message) {
		if failed != nil {
			return
		}
		if failed = out.take(m); failed != nil {
			stop()
		}
	})
	switch {
	case c.Context().Err() != nil:
		return c.Context().Err()
	case failed != nil:
		return failed
	}
	return out.result()
}

// exploreLinked runs the test program and prints its messages.
func exploreLinked(ctx context.Context, p *project.Project, binary string, o options, out *printer) error {
	messages, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer messages.Close()
	running, stop := context.WithCancel(ctx)
	defer stop()
	cmd := exec.CommandContext(running, binary, "-test.run=^"+TestName+"$", "-test.timeout=0")
	cmd.Dir = p.Dir
	number, err := child.Pass(cmd, theirs)
	if err != nil {
		theirs.Close()
		return err
	}
	cmd.Env = append(os.Environ(), "KELSON_EXPLORE_REPORT="+number, "KELSON_EXPLORE_FOR="+o.limit.String(),
		"KELSON_EXPLORE_SEED="+strconv.FormatUint(o.seed, 10), "KELSON_EXPLORE_PLAN="+o.plan)
	cmd.Cancel = func() error { return child.Terminate(cmd.Process) }
	cmd.WaitDelay = 5 * time.Second
	var output lastBytes
	cmd.Stdout, cmd.Stderr = &output, &output
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return err
	}
	failed := out.follow(messages)
	if failed != nil {
		stop()
	}
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case failed != nil:
		return failed
	case out.last.Kind != "error" && out.last.Kind != "done":
		return fmt.Errorf("the operator's process ended: %w\n%s", err, bytes.TrimSpace(output))
	}
	return out.result()
}

// lastBytes keeps the last bytes that are written to it.
type lastBytes []byte

// Write implements io.Writer.
func (l *lastBytes) Write(p []byte) (int, error) {
	const kept = 64 << 10
	if *l = append(*l, p...); len(*l) > 2*kept {
		*l = append((*l)[:0], (*l)[len(*l)-kept:]...)
	}
	return len(p), nil
}

// result returns the error of the command after the last message.
func (p *printer) result() error {
	switch {
	case p.last.Kind == "error":
		return errors.New(p.last.Text)
	case p.last.Alarms > 0:
		return exit.Code(1)
	}
	return nil
}

// BuildReplay compiles a test program that calls replay.Drive with the project's operator. The file
// belongs to the caller until release is called; see [Link].
func BuildReplay(ctx context.Context, p *project.Project, temp string) (binary string, release func(), err error) {
	return build(ctx, p, temp, true)
}

// build writes the test program and compiles it; see [Link]. It changes nothing in the project: the
// go command reads the program from temp by an overlay.
func build(ctx context.Context, p *project.Project, temp string, replay bool) (binary string, release func(), err error) {
	overlay, err := writeProgram(p, temp, replay)
	if err != nil {
		return "", func() {}, err
	}
	work, err := workspace(ctx, p, temp)
	if err != nil {
		return "", func() {}, err
	}
	command := "explore.test"
	if replay {
		command = "replay.test"
	}
	return Link(p, command, temp, func(file string) error {
		// -mod=readonly replaces -mod=mod in GOFLAGS, which workspaces do not allow. -s and -w omit
		// the tables of symbols and of debuggers, which take long to write.
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-mod=readonly", "-vet=off", "-tags="+p.Tags, "-ldflags=-s -w", "-overlay="+overlay, "-o="+file, ".")
		cmd.Dir, cmd.Env = p.Main, append(os.Environ(), work...)
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build operator: %w\n%s", err, bytes.TrimSpace(output))
		}
		return nil
	})
}
