// Package explore implements kelson explore.
package explore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"kelson.dev/cmd/kelson/internal/exit"
	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/lab/agent"
	"kelson.dev/lab/agent/inside"
	"kelson.dev/lab/explore"
)

// options are the flags of kelson explore.
type options struct {
	limit                time.Duration
	seed                 uint64
	plan                 string
	tests                string // the folder for tests of the alarms; "" for none
	failure              string // the file for the first alarm; "" for none
	junit                string // files of reports; "" for none
	sarif                string
	markdown             string
	check                bool
	oneFault, untilAlarm bool
	steps                bool
	binary               string
	process, share       bool
	former               string // the folder of the former version; "" for none
	parallel             int
	args                 []string // of the operator's process
	allow                []string // hosts to which an operator in virtual time may connect
	format               output.Format
	gens                 project.Generators
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
inputs and config/crd/bases and config/rbac by other folders, can add invariants in
CEL, can set arguments and variables of the operator, and can describe the services
and the other operators that it needs.

The project needs no code for this, and may use any version of Kubernetes'
libraries. The command builds its program with a small agent, which replaces the
clock and the network: the program runs as a separate process, with the arguments
after --, in virtual time. Its requests reach a control plane in this process, and
its ports can be reached from there only. The operator has the rights of
config/rbac. Its webhooks are called if config/webhook configures them. Connections
to other systems and starts of other programs fail, unless --allow names them, and
are reported.

With --process, the command runs the program as it is, in real time: choose this for
a program that cannot be built in this way. With --binary it runs any program, in
any language, and DIR only has the manifests. In real time, a kill is a SIGKILL,
several runs happen at the same time, and further runs confirm each alarm. The
program finds the control plane by KUBECONFIG in its environment or $KUBECONFIG in
its arguments. If kelson runs as root on Linux, each process has its own network.`,
		Example: `  kelson explore --for 2m
  kelson explore --plan 'kill-after create secrets default/web-key #1'
  kelson explore --export && kelson test
  kelson explore --binary ./manager -- --leader-elect=false
  git worktree add ../v1 v1.0.0 && kelson explore --former ../v1
  kelson explore --output json --failure failure.json`,
		RunE: func(c *cobra.Command, args []string) error {
			own, rest := project.SplitArgs(c, args)
			if len(own) > 1 {
				return fmt.Errorf("unexpected argument %q: put arguments of the operator after --", own[1])
			}
			o.args = rest
			if o.share {
				return exploreShare(c.Context(), c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr())
			}
			switch {
			case o.limit <= 0:
				return fmt.Errorf("--for %v: want a positive duration", o.limit)
			case o.parallel < 0:
				return fmt.Errorf("--parallel %d: want a positive number", o.parallel)
			case o.binary != "" && o.process:
				return errors.New("--binary and --process exclude each other: --process builds the project's program")
			case o.former != "" && (o.binary != "" || o.process):
				return errors.New("--former needs virtual time: it excludes --binary and --process")
			case o.steps && o.plan == "":
				return errors.New("--steps needs --plan")
			case o.oneFault && (o.check || o.plan != ""):
				return errors.New("--one-fault excludes --plan and --check")
			case o.untilAlarm && (o.check || o.plan != ""):
				return errors.New("--until-alarm excludes --plan and --check")
			case o.check && o.plan != "":
				return errors.New("--check and --plan exclude each other")
			}
			if _, err := explore.ParsePlan(o.plan); err != nil {
				return fmt.Errorf("--plan: %w", err)
			}
			return run(c, project.Folder(own), o)
		},
	}
	c.Flags().DurationVar(&o.limit, "for", 30*time.Second,
		"how long to explore, without the build and the runs without faults. For a process, the default is "+
			processLimit.String())
	c.Flags().BoolVar(&o.untilAlarm, "until-alarm", false, "end at the first alarm, at the latest after --for")
	c.Flags().BoolVar(&o.oneFault, "one-fault", false,
		"end as soon as each plan with a single fault has run, at the latest after --for")
	c.Flags().Uint64Var(&o.seed, "seed", 0, "seed of the random plans")
	c.Flags().StringVar(&o.plan, "plan", "", "run only this plan, as printed by an alarm")
	c.Flags().StringVar(&o.tests, "export", "",
		"write each alarm as a Go test to this folder of the project; without a value, to "+testFolder)
	c.Flags().Lookup("export").NoOptDefVal = testFolder
	c.Flags().StringVar(&o.failure, "failure", "",
		"write the first alarm to this file in JSON, with its run and the run without faults")
	c.Flags().StringVar(&o.junit, "junit", "", "write the alarms to this file as a report of JUnit")
	c.Flags().StringVar(&o.sarif, "sarif", "", "write the alarms to this file in SARIF")
	c.Flags().StringVar(&o.markdown, "markdown", "",
		"write the alarms and what was explored to this file in Markdown, for the summary of a CI job")
	c.Flags().BoolVar(&o.check, "check", false,
		"check the manifests, rights and samples, and neither build nor run the operator")
	c.Flags().BoolVar(&o.steps, "steps", false, "print the steps of the plan of --plan if it raises no alarm")
	c.Flags().StringVar(&o.binary, "binary", "", "run this program as a process instead of the project's operator")
	c.Flags().BoolVar(&o.process, "process", false, "run the project's program as it is, in real time")
	c.Flags().StringVar(&o.former, "former", "",
		"folder with the former version of the project, such as a git worktree: try upgrades from it and rollbacks to it")
	c.Flags().IntVar(&o.parallel, "parallel", 0, fmt.Sprintf("maximum number of concurrent runs (default: "+
		"one for each processor, at most %d; two for each if the program runs as a process)", mostShares))
	c.Flags().BoolVar(&o.share, "share", false, "explore a share of the plans, which the standard input describes")
	_ = c.Flags().MarkHidden("share") // returns an error if the flag does not exist
	c.Flags().StringSliceVar(&o.allow, "allow", nil,
		"hosts outside of the cluster to which the operator may connect, and programs that it may start, or * for "+
			"all; time stands still meanwhile")
	o.format.AddFlag(c)
	o.gens.AddFlags(c.Flags())
	o.gens.AddSkipFlag(c.Flags())
	return c
}

func run(c *cobra.Command, dir string, o options) error {
	said := &warnings{to: c.ErrOrStderr()}
	slog.SetDefault(slog.New(said))
	p := &printer{warnings: said, out: c.OutOrStdout(), errOut: c.ErrOrStderr(), command: "kelson explore", format: o.format,
		failure: o.failure, junit: o.junit, sarif: o.sarif, markdown: o.markdown, folder: filepath.ToSlash(dir)}
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
	if p.former = o.former; o.former != "" && o.tests != "" {
		if p.tests.former, err = filepath.Abs(o.former); err != nil {
			return err
		}
	}
	if o.binary != "" {
		program, err := filepath.Abs(o.binary)
		if err != nil {
			return err
		}
		if o.check {
			return p.fail(check(c.Context(), abs, p))
		}
		p.asProcess([]string{"--binary", o.binary}, []string{"--binary", program}, o.args)
		return p.fail(exploreProcess(c, abs, program, o, p))
	}
	return p.fail(exploreProject(c, dir, o, p))
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
	if o.check {
		return check(c.Context(), p.Dir, out)
	}
	temp, err := os.MkdirTemp("", "kelson-explore-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if o.process {
		program := filepath.Join(temp, "operator")
		if err := p.Build(c.Context(), program); err != nil {
			return err
		}
		out.asProcess([]string{"--process"}, []string{"--process"}, o.args)
		return exploreProcess(c, p.Dir, program, o, out)
	}
	// Everything that needs no build is checked before it.
	s, err := explore.Project(p.Dir, nil)
	if err != nil {
		return err
	}
	if err := explore.Check(c.Context(), s); err != nil {
		return err
	}
	building := newBuilding(out.errOut)
	binary, release, err := buildProgram(c.Context(), p, temp, len(s.Services) > 0, building.compiling)
	building.done(err)
	defer release()
	if err != nil {
		return notBuilt(c.Context(), p, temp, err)
	}
	out.withArgs(o.args)
	if o.former == "" {
		o.former = s.FormerFolder()
	}
	if o.former != "" {
		s.FormerProgram, release, err = buildFormer(c.Context(), temp, len(s.Services) > 0, o, out)
		defer release()
		if err != nil {
			return err
		}
		if s.FormerDefinitions, err = explore.Definitions(o.former); err != nil {
			return fmt.Errorf("the former version: %w", err)
		}
	}
	for _, folder := range s.OtherFolders() {
		other, release, err := buildOther(c.Context(), temp, folder, len(s.Services) > 0, out)
		defer release()
		if err != nil {
			return fmt.Errorf("the operator %s: %w", folder.Name, err)
		}
		s.Others = append(s.Others, other)
	}
	err = exploreProgram(c.Context(), p, s, binary, o, out)
	if errors.As(err, new(unexplored)) {
		return fmt.Errorf("%w\n%s", err, inRealTime)
	}
	return err
}

// inRealTime is the next step after an error of virtual time.
const inRealTime = "If this is a limit of virtual time, --process runs the operator as a process in real time, " +
	"which is slower and finds less."

// notBuilt returns the error of a build with the agent: that of the project alone, if it does not
// compile without the agent either.
func notBuilt(ctx context.Context, p *project.Project, temp string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if own := p.Build(ctx, filepath.Join(temp, "operator")); own != nil {
		return own
	}
	return fmt.Errorf("build the operator for virtual time: %w\n%s", err, inRealTime)
}

// buildFormer builds the former version of the operator. The file belongs to the caller until
// release is called, also if there is an error.
func buildFormer(ctx context.Context, temp string, services bool, o options, out *printer) (_ *explore.Binary,
	release func(), err error) {
	release = func() {}
	p, err := project.Open(o.former)
	if err != nil {
		return nil, release, fmt.Errorf("the former version: %w", err)
	}
	if temp, err = os.MkdirTemp(temp, "former-"); err != nil {
		return nil, release, err
	}
	building := newBuilding(out.errOut)
	binary, release, err := buildProgram(ctx, p, temp, services, building.compiling)
	building.done(err)
	if err != nil {
		return nil, release, fmt.Errorf("the former version, %s: %w", o.former, err)
	}
	return &explore.Binary{Path: binary, Args: slices.Concat(p.Args, o.args), Dir: p.Dir}, release, nil
}

// buildOther builds another operator. The file belongs to the caller until release is called, also
// if there is an error.
func buildOther(ctx context.Context, temp string, folder explore.OtherFolder, services bool,
	out *printer) (_ explore.Other, release func(), err error) {
	release = func() {}
	p, err := project.Open(folder.Folder)
	if err != nil {
		return explore.Other{}, release, err
	}
	if temp, err = os.MkdirTemp(temp, "other-"); err != nil {
		return explore.Other{}, release, err
	}
	building := newBuilding(out.errOut)
	binary, release, err := buildProgram(ctx, p, temp, services, building.compiling)
	building.done(err)
	return explore.Other{Name: folder.Name, Program: &explore.Binary{Path: binary, Args: folder.Args,
		Env: folder.Env, Dir: p.Dir}}, release, err
}

// check checks the manifests of a folder, and neither builds nor runs the operator.
func check(ctx context.Context, dir string, out *printer) error {
	s, err := explore.Project(dir, nil)
	if err != nil {
		return err
	}
	if err := explore.Check(ctx, s); err != nil {
		return err
	}
	r := explore.Checked(s)
	return out.take(explore.Message{Kind: "done", Text: r.Summary(), Report: &r})
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
	return out.drive(c.Context(), func(ctx context.Context, send func(explore.Message)) {
		explore.DriveBinary(ctx, s, o.plan, o.exploration(), send)
	})
}

// exploreProgram explores an operator that BuildProgram has built, in virtual time.
func exploreProgram(ctx context.Context, p *project.Project, s explore.Scenario, binary string, o options,
	out *printer) error {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // as in exploreProcess
	s.Program = &explore.Binary{Path: binary, Args: slices.Concat(p.Args, o.args), Dir: p.Dir}
	if o.allow != nil {
		allowed := inside.AllowVariable + "=" + strings.Join(o.allow, ",")
		s.Program.Env = append(s.Program.Env, allowed)
		if s.FormerProgram != nil {
			s.FormerProgram.Env = append(s.FormerProgram.Env, allowed)
		}
		for _, other := range s.Others {
			other.Program.Env = append(other.Program.Env, allowed)
		}
	}
	err, first := error(nil), true
	driven := out.drive(ctx, func(ctx context.Context, send func(explore.Message)) {
		take := func(m explore.Message) {
			if first && m.Kind == "error" && !ofAnyTime(m.Text) {
				err = unexplored(m.Text)
			}
			first = false
			send(m)
		}
		if n := o.shares(); n > 1 {
			division := newDivision(p.Dir, &s, o, out.warnings)
			explore.DriveShares(ctx, n, division.start, o.exploration(), take)
		} else {
			explore.DriveProgram(ctx, s, o.plan, o.exploration(), take)
		}
	})
	if err != nil && ctx.Err() == nil {
		return err
	}
	return driven
}

// ofAnyTime reports whether an error of an exploration has nothing to do with virtual time: an
// input that fails, or an operator that fails without any fault.
func ofAnyTime(text string) bool {
	return strings.HasPrefix(text, "input ") || strings.HasPrefix(text, "without any fault, ")
}

// exploration returns the options of the exploration.
func (o options) exploration() explore.Options {
	return explore.Options{For: o.limit, OneFault: o.oneFault, UntilAlarm: o.untilAlarm, Seed: o.seed, Steps: o.steps}
}

// unexplored is the reason why no plan of an operator could be run.
type unexplored string

func (u unexplored) Error() string { return string(u) }

// drive prints the messages of an exploration, which ends early if that fails.
func (p *printer) drive(ctx context.Context, run func(context.Context, func(explore.Message))) error {
	exploring, stop := context.WithCancel(ctx)
	defer stop()
	var failed error
	run(exploring, func(m explore.Message) {
		if failed != nil {
			return
		}
		if failed = p.take(m); failed != nil {
			stop()
		}
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case failed != nil:
		return failed
	}
	return p.result()
}

// BuildProgram compiles the operator of a project for virtual time; see package agent. It calls
// compiling with the path of each package that the go command compiles. The file belongs to the
// caller until release is called; see [project.Project.Link].
func BuildProgram(ctx context.Context, p *project.Project, temp string,
	compiling func(path string)) (binary string, release func(), err error) {
	return buildProgram(ctx, p, temp, false, compiling)
}

// buildProgram does the same as BuildProgram, for an operator that may call services.
func buildProgram(ctx context.Context, p *project.Project, temp string, services bool,
	compiling func(path string)) (binary string, release func(), err error) {
	command := "virtual"
	if services {
		command = "virtual-services"
	}
	return p.Link(command, temp, func(file string) error {
		return agent.Program{Dir: p.Main, Tags: p.Tags, Services: services, Shared: sharedBuilds(),
			Compiling: compiling}.Build(ctx, filepath.Join(filepath.Dir(file), "overlay"), file)
	})
}

// sharedBuilds returns the folder for [agent.Program.Shared] in the user's cache; "" without a
// cache.
func sharedBuilds() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "kelson", "builds")
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
