package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/toolchain"
	"kelson.dev/toolchain/scaffold"
)

func runCommand() *cobra.Command {
	var cluster clusterFlags
	c := &cobra.Command{
		Use:   "run [DIR] [-- FLAG…]",
		Short: "Run a project's operator on this machine, for a cluster",
		Long: `Run a project's operator on this machine, for a cluster.

It is generated, built and run; flags after -- are the operator's own. Where the
cluster's API server is on this machine too, it is made to call the operator's
webhooks here. With ENABLE_WEBHOOKS=false in the environment there are none.`,
		Example: `  kelson run
  ENABLE_WEBHOOKS=false kelson run . -- --v=1`,
		RunE: func(c *cobra.Command, args []string) error {
			own, rest := split(c, args)
			if len(own) > 1 {
				return fmt.Errorf("unexpected argument %q: flags of the operator come after --", own[1])
			}
			temp, err := os.MkdirTemp("", "kelson-run-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(temp)
			binary := filepath.Join(temp, "manager")
			p, err := buildProject(c, folder(own), binary)
			if err != nil {
				return err
			}
			var env []string
			if cluster.kubeconfig != "" {
				path, err := filepath.Abs(cluster.kubeconfig)
				if err != nil {
					return err
				}
				env = append(env, "KUBECONFIG="+path)
			}
			if os.Getenv("KELSON_LOCAL_WEBHOOKS") == "" && cluster.isHere() {
				env = append(env, "KELSON_LOCAL_WEBHOOKS=true") // the API server can call this machine, and is told to
			}
			if cluster.context != "" {
				rest = append([]string{"--context=" + cluster.context}, rest...)
			}
			return child(c.Context(), p.Dir, env, c.OutOrStdout(), c.ErrOrStderr(), binary, rest...)
		},
	}
	cluster.addFlags(c.Flags())
	return c
}

func buildCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "build [DIR]",
		Short: "Generate what follows from a project's types, and build its operator",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := output
			if name == "" {
				name = filepath.Join(folder(args), "bin", "manager")
			}
			abs, err := filepath.Abs(name)
			if err != nil {
				return err
			}
			if _, err = buildProject(c, folder(args), abs); err == nil {
				fmt.Fprintln(c.OutOrStdout(), "built", name)
			}
			return err
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "the file to build (default bin/manager in the project)")
	return c
}

func testCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "test [DIR] [-- FLAG…]",
		Short: "Generate what follows from a project's types, and run its tests",
		Long: `Generate what follows from a project's types, and run its tests.

Each test that asks for one gets a control plane of its own from this program.
What comes after -- is given to go test, with ./... unless it names packages.`,
		Example: `  kelson test
  kelson test . -- -run Welcome ./internal/controller`,
		RunE: func(c *cobra.Command, args []string) error {
			own, rest := split(c, args)
			if len(own) > 1 {
				return fmt.Errorf("unexpected argument %q: flags of go test come after --", own[1])
			}
			p, err := project.Open(folder(own))
			if err != nil {
				return err
			}
			if err := generateAll(c, p.Dir); err != nil {
				return err
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			if !hasPackage(rest) {
				rest = append(rest, "./...")
			}
			return child(c.Context(), p.Dir, []string{"KELSON=" + self}, c.OutOrStdout(), c.ErrOrStderr(), "go", append([]string{"test"}, rest...)...)
		},
	}
}

// hasPackage says whether arguments of go test name packages by path.
func hasPackage(args []string) bool {
	for _, a := range args {
		if a != "" && (a[0] == '.' || a[0] == '/') {
			return true
		}
	}
	return false
}

// split tells a command's own arguments from those after --.
func split(c *cobra.Command, args []string) (own, rest []string) {
	if at := c.ArgsLenAtDash(); at >= 0 {
		return args[:at], args[at:]
	}
	return args, nil
}

// buildProject generates what a project needs and builds its operator.
func buildProject(c *cobra.Command, dir, binary string) (*project.Project, error) {
	p, err := project.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := generateAll(c, p.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		return nil, err
	}
	return p, p.Build(c.Context(), binary)
}

// generateAll brings all of a project up to date that follows from something else: code, manifests, what Kelson needs in go.mod.
func generateAll(c *cobra.Command, dir string) error {
	followed, err := scaffold.Follow(dir)
	if err != nil {
		return err
	}
	for _, f := range followed {
		fmt.Fprintf(c.OutOrStdout(), "%-8s %s, after Kelson's source\n", f.What, f.Path)
	}
	result, err := toolchain.Generate(c.Context(), toolchain.Options{Dir: dir})
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	fmt.Fprintln(c.OutOrStdout(), generated(result))
	return nil
}

// childGrace is how long a child may take to end when this process is told to.
const childGrace = 35 * time.Second

// child runs a program in a folder to its end, and has it end when ctx does. Its exit code becomes that of this process.
func child(ctx context.Context, dir string, env []string, out, errOut io.Writer, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = out, errOut
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C comes once, from here
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = childGrace
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exitCode(exit.ExitCode())
	}
	if ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())) {
		return nil
	}
	return err
}
