// Command kelson is the operator workbench: a control plane, generators, the development loop and kubectl in one binary.
//
// Each command is a file of its own in this folder. All of them give one clear line and a non-zero exit code for what is wrong.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	// Under another command's name this binary is that command.
	invoked := os.Args[0]
	if name := filepath.Base(invoked); slices.Contains(dropIns, name) {
		os.Args = append([]string{"kelson", name}, os.Args[1:]...)
	}
	if len(os.Args) > 1 && os.Args[1] == "kubectl" {
		os.Exit(kubectl(invoked, os.Args[1:])) // it has its own flags and its own manner of failing
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:]))
}

// run carries out a command line and gives the exit code.
func run(ctx context.Context, args []string) int {
	root := rootCommand()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	default:
		fmt.Fprintln(os.Stderr, "kelson:", err)
		return 1
	}
}

// rootCommand is kelson with all its commands.
func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "kelson",
		Short:         "The operator workbench for Kubernetes",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(initCommand(), createCommand(), editCommand(), deleteCommand(), upgradeCommand(),
		manifestsCommand(), installCommand(), uninstallCommand(), runCommand(), deployCommand(), undeployCommand(), buildCommand(), testCommand(), packageCommand(),
		serveCommand(), devCommand(), generateCommand(), envtestCommand(), dataCommand(), vetCommand(), whyCommand(), versionCommand(), kubectlHelp(),
		apiserverCommand(), etcdCommand())
	return root
}

// exitCode is an error that was already told and only sets the exit code.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }
