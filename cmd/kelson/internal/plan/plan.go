// Package plan implements kelson plan.
package plan

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"kelson.dev/cmd/kelson/internal/exit"
	"kelson.dev/cmd/kelson/internal/kubeconfig"
	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/lab/plan"
)

// changesCode is the exit code if the operator would do anything.
const changesCode = exit.Code(2)

// options are the flags of kelson plan.
type options struct {
	kubeconfig, context string
	backup              string
	against             string
	user                string
	quiet, timeout      time.Duration
	format              format
	all, verbose        bool
	gens                project.Generators
	args                []string     // of the operator
	cluster             *rest.Config // nil for a backup
}

// Command returns kelson plan.
func Command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "plan [DIR] [-- FLAG…]",
		Short: "Show what a project's operator would do in a cluster, without doing it",
		Long: `Show what a project's operator would do in a cluster, without doing it.

It reads all objects of the cluster, or of a backup, into a control plane in
memory, and runs the project's operator there until it is quiet. It prints each
reconcile that wrote something, in order, with its cause and the changed fields.
The exit code is 0 if the operator would do nothing, 2 if it would do anything,
1 after an error, and 64 if the command line is wrong.

With --against, it runs another version of the operator on a second copy, and
shows only the objects whose final states differ: these are the effects of an
upgrade of the operator. The other version is a git revision of the project, the
folder of another checkout, or a compiled program.

kelson sends only read requests to the cluster. It does not call webhooks; the
plan names those that the operator's writes would have called. Values of Secrets
stay in memory and are hidden wherever they appear in the plan. Pods that the
operator creates are simulated; steps that depend on them are marked.

The operator runs as a process of this machine with the rights of its service
account in config/default or config/rbac, and with the arguments of its
Deployment in config/default, except those about listening and leader election.
Flags after -- are added. The operator can reach systems outside of the cluster that
this machine can reach: to prevent this, run the command on a machine without access
to them.`,
		Example: `  kelson plan
  kelson plan --against v1.2.0 --output markdown
  kelson plan --backup cluster.backup -- --dry-run-dns`,
		RunE: func(c *cobra.Command, args []string) error {
			own, operatorArgs := project.SplitArgs(c, args)
			if len(own) > 1 {
				return fmt.Errorf("unexpected argument %q: put flags of the operator after --", own[1])
			}
			switch {
			case o.backup != "" && (o.kubeconfig != "" || o.context != ""):
				return errors.New("--backup excludes --kubeconfig and --context")
			case o.quiet <= 0:
				return fmt.Errorf("--quiet %v: want a positive duration", o.quiet)
			case o.timeout <= o.quiet:
				return fmt.Errorf("--timeout %v: want more than --quiet, which is %v", o.timeout, o.quiet)
			}
			o.args = operatorArgs
			return run(c, project.Folder(own), o)
		},
	}
	f := c.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster (default: $KUBECONFIG or ~/.kube/config)")
	f.StringVar(&o.context, "context", "", "context of the kubeconfig to use")
	f.StringVar(&o.backup, "backup", "", "file of kelson data backup to read instead of a cluster")
	f.StringVar(&o.against, "against", "", "version to compare with: a git revision, a folder or a program")
	f.StringVar(&o.user, "user", "", "user with whose rights the operator runs (default: its service account)")
	f.DurationVar(&o.quiet, "quiet", plan.DefaultQuiet,
		"how long the operator must do nothing before it counts as quiet")
	f.DurationVar(&o.timeout, "timeout", plan.DefaultTimeout, "how long the operator may take to become quiet")
	f.BoolVar(&o.all, "all", false, "show every step and every field")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "show the operator's output")
	o.format.addFlag(c)
	o.gens.AddFlags(f)
	o.gens.AddSkipFlag(f)
	return c
}

func run(c *cobra.Command, dir string, o options) error {
	p, err := project.Open(dir)
	if err != nil {
		return err
	}
	if p.Server {
		return fmt.Errorf("%s is a custom API server: kelson plan runs operators", p.Dir)
	}
	if o.backup == "" {
		// before the operator is built, which takes long
		if o.cluster, _, err = kubeconfig.Load(o.kubeconfig, o.context); err != nil {
			return err
		}
	}
	// Kubernetes' controllers log errors that they resolve with a retry.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	temp, err := os.MkdirTemp("", "kelson-plan-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	// Standard output has only the plan, for CI; generators print to standard error.
	out := c.OutOrStdout()
	c.SetOut(c.ErrOrStderr())
	defer c.SetOut(out)
	progress := output.NewProgress(c.ErrOrStderr())
	progress.Lines = true
	defer progress.Done()

	if err := project.Generate(c, p.Dir, o.gens); err != nil {
		return err
	}
	progress.Step("building the operator")
	binary, release, err := p.Link("operator", temp, func(file string) error {
		return p.Build(c.Context(), file)
	})
	if err != nil {
		return err
	}
	defer release()
	operator, err := configured(p, binary)
	if err != nil {
		return err
	}
	var old *operatorProcess
	if o.against != "" {
		progress.Step("building %s", o.against)
		if old, err = otherVersion(c.Context(), p, o.against, temp); err != nil {
			return err
		}
	}
	progress.Step("reading the cluster")
	state, err := o.state(c.Context())
	if err != nil {
		return err
	}
	defer state.Close()

	progress.Step("running the operator on a copy of %d objects", state.Len())
	result, err := o.plan(c.Context(), state, operator, temp, progress)
	if err != nil {
		return err
	}
	if old != nil {
		progress.Step("running %s on another copy", o.against)
		before, err := o.plan(c.Context(), state, old, temp, progress)
		if err != nil {
			return fmt.Errorf("%s: %w", o.against, err)
		}
		if err := result.Compare(before, o.against); err != nil {
			return err
		}
	}
	progress.Done()
	if err := o.print(out, result); err != nil {
		return err
	}
	if result.Incomplete != "" {
		return fmt.Errorf("%s: the plan is incomplete", result.Incomplete)
	}
	if !result.Empty() {
		return changesCode
	}
	return nil
}

// state reads the cluster or the backup.
func (o *options) state(ctx context.Context) (*plan.State, error) {
	if o.backup != "" {
		f, err := os.Open(o.backup)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return plan.Backup(f, o.backup)
	}
	return plan.Cluster(ctx, o.cluster)
}

// plan runs a version of the operator on a copy of a state.
func (o *options) plan(ctx context.Context, state *plan.State, op *operatorProcess, temp string,
	errOut io.Writer) (*plan.Plan, error) {
	user := o.user
	if user == "" {
		user = op.user
	}
	log := &operatorLog{}
	if o.verbose {
		log.also = errOut
	}
	p, err := plan.Run(ctx, state, plan.Config{
		Operator: func(ctx context.Context, to plan.Target) error { return op.run(ctx, to, temp, o.args, log) },
		User:     user, Install: op.install, Quiet: o.quiet, Timeout: o.timeout,
	})
	if errors.Is(err, plan.ErrEnded) && !o.verbose {
		return nil, fmt.Errorf("%w; its output ends with\n%s", err, log.end())
	}
	if err != nil {
		return nil, err
	}
	if user == "" {
		p.Notes = append(p.Notes, "the operator has all rights: the project has no service account in config/default or config/rbac")
	}
	p.Notes = append(p.Notes, op.notes...)
	return p, nil
}

func (o *options) print(out io.Writer, p *plan.Plan) error {
	switch o.format {
	case formatMarkdown:
		return p.Markdown(out)
	case format(output.JSON), format(output.YAML):
		return output.Format(o.format).Print(out, p)
	default:
		return p.Text(out, plan.TextOptions{All: o.all, Paint: output.ColorsFor(out)})
	}
}

// format is the value of --output.
type format string

const formatMarkdown format = "markdown"

var formats = []string{"text", string(output.JSON), string(output.YAML), string(formatMarkdown)}

func (f *format) addFlag(c *cobra.Command) {
	c.Flags().VarP(f, "output", "o", "format: text, json, yaml or markdown (default: text)")
	// the flag exists
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// String implements pflag.Value.
func (f *format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *format) Type() string { return "format" }

// Set implements pflag.Value.
func (f *format) Set(text string) error {
	if !slices.Contains(formats, text) {
		return fmt.Errorf("unknown format %q: want text, json, yaml or markdown", text)
	}
	if text == "text" {
		text = string(output.Text)
	}
	*f = format(text)
	return nil
}
