// Command kelson is the operator workbench: a control plane, generators, the development loop and
// kubectl in one binary.
//
// The commands are in packages below internal:
//
//	serve     serve, fork, with state, pods and throwaway control planes; flags has the flags shared with dropin
//	dropin    envtest, and the kube-apiserver and etcd that envtest starts
//	kubectl   kubectl; plugin: kubectl-plugin, and this binary as kubectl kelson
//	output    the flag --output and colors
//	data      data check, backup, restore, copy
//	dev       dev, with the development loop, its log and the conditions of --until
//	project   init, create, edit, delete, upgrade, generate, manifests, build, test
//	deploy    run, install, uninstall, deploy, undeploy, package
//	image     image
//	console   console
//	vet, why  vet, why
//	blame     blame
//	history   record, history, diff
//	rights    rights
//	explore   explore
//	plan      plan
//	replay    replay
//	token     token
//	usage     errors of command lines, groups of commands
//
// A command that fails prints one error message and exits with a non-zero code. It is 2 if the
// command line is wrong; see package usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"kelson.dev/cmd/kelson/internal/blame"
	"kelson.dev/cmd/kelson/internal/completion"
	"kelson.dev/cmd/kelson/internal/console"
	"kelson.dev/cmd/kelson/internal/data"
	"kelson.dev/cmd/kelson/internal/deploy"
	"kelson.dev/cmd/kelson/internal/dev"
	"kelson.dev/cmd/kelson/internal/dropin"
	"kelson.dev/cmd/kelson/internal/dropin/startup"
	"kelson.dev/cmd/kelson/internal/exit"
	"kelson.dev/cmd/kelson/internal/explore"
	"kelson.dev/cmd/kelson/internal/history"
	"kelson.dev/cmd/kelson/internal/image"
	"kelson.dev/cmd/kelson/internal/kubectl"
	formats "kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/cmd/kelson/internal/plan"
	"kelson.dev/cmd/kelson/internal/plugin"
	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/cmd/kelson/internal/replay"
	"kelson.dev/cmd/kelson/internal/rights"
	"kelson.dev/cmd/kelson/internal/serve"
	"kelson.dev/cmd/kelson/internal/token"
	"kelson.dev/cmd/kelson/internal/usage"
	"kelson.dev/cmd/kelson/internal/vet"
	"kelson.dev/cmd/kelson/internal/why"
)

func main() {
	// If the binary is called by the name of a drop-in, it runs that command.
	invoked := os.Args[0]
	replaces := slices.Contains(dropin.Names, filepath.Base(invoked))
	if replaces {
		os.Args = append([]string{"kelson", filepath.Base(invoked)}, os.Args[1:]...)
	}
	if _, ok := plugin.Arguments(invoked, nil); !ok && len(os.Args) > 1 && os.Args[1] == "kubectl" {
		// kubectl parses its own flags and prints its own errors
		os.Exit(kubectl.Run(invoked, os.Args[1:]))
	}
	// Kubernetes' libraries log through klog. Commands return their errors, and servers route the
	// lines to their own log. Warnings of API servers are printed only by commands that act on a
	// cluster for their user.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signals = append(signals, syscall.SIGHUP)
	}
	ctx := exit.OnSignal(signals...)
	if replaces {
		ctx = startup.UntilParentEnds(ctx)
	}
	root := rootCommand()
	args, ok := plugin.Arguments(invoked, os.Args[1:])
	if ok {
		plugin.Root(root)
	} else {
		args = os.Args[1:]
	}
	os.Exit(execute(ctx, root, args))
}

// execute runs a command line and returns the exit code. A command whose output could not be
// written has failed.
func execute(ctx context.Context, root *cobra.Command, args []string) int {
	usage.Register(root, dropin.Names)
	root.SetArgs(args)
	checked := formats.Check(os.Stdout)
	if checked != nil {
		root.SetOut(checked)
	} else if terminal := formats.TerminalOf(os.Stdout); terminal != nil {
		root.SetOut(terminal)
	}
	if terminal := formats.TerminalOf(os.Stderr); terminal != nil {
		root.SetErr(terminal)
	}
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = checked.Err()
	}
	if err == nil {
		return 0
	}
	err = project.Explain(err)
	var code exit.Code
	if errors.As(err, &code) {
		return int(code)
	}
	var failure *exit.Failure
	if errors.As(err, &failure) {
		fmt.Fprintln(root.ErrOrStderr(), "kelson:", err)
		return int(failure.Code)
	}
	switch wrong := usage.As(root, err, args); {
	case wrong != nil:
		fmt.Fprintf(root.ErrOrStderr(), "kelson: %v\n", wrong)
		return wrong.Code
	default:
		fmt.Fprintln(root.ErrOrStderr(), "kelson:", err)
		return 1
	}
}

// rootCommand returns kelson with all its commands.
func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "kelson",
		Short:         "The operator workbench for Kubernetes",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(
		project.InitCommand(), project.CreateCommand(), project.EditCommand(), project.DeleteCommand(),
		project.UpgradeCommand(),
		project.GenerateCommand(), project.ManifestsCommand(), project.BuildCommand(), project.TestCommand(),
		deploy.InstallCommand(), deploy.UninstallCommand(), deploy.RunCommand(), deploy.DeployCommand(),
		deploy.UndeployCommand(), deploy.PackageCommand(), image.Command(),
		serve.Command(), serve.ForkCommand(), serve.ListCommand(), serve.StopCommand(), dev.Command(), data.Command(),
		vet.Command(), console.Command(),
		why.Command(), blame.Command(),
		history.RecordCommand(), history.Command(), history.DiffCommand(), replay.Command(), rights.Command(),
		explore.Command(), plan.Command(),
		token.Command(), kubectl.Command(), plugin.Command(), versionCommand(), manCommand(),
		dropin.EnvtestCommand(), dropin.APIServerCommand(), dropin.EtcdCommand())
	completion.Register(root)
	root.InitDefaultCompletionCmd()
	return root
}
