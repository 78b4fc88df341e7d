package project

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/child"
	"kelson.dev/cmd/kelson/internal/exit"
	"kelson.dev/kubernetes/emulation"
	"kelson.dev/toolchain/scaffold"
)

// BuildCommand returns kelson build.
func BuildCommand() *cobra.Command {
	var output string
	var gens Generators
	c := &cobra.Command{
		Use:   "build [DIR]",
		Short: "Run a project's generators and build its operator",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := output
			if name == "" {
				name = filepath.Join(Folder(args), "bin", "manager")
			}
			abs, err := filepath.Abs(name)
			if err != nil {
				return err
			}
			if _, err = GenerateAndBuild(c, Folder(args), abs, gens); err == nil {
				fmt.Fprintln(c.OutOrStdout(), "built", name)
			}
			return err
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "output file (default bin/manager in the project)")
	gens.AddFlags(c.Flags())
	gens.AddSkipFlag(c.Flags())
	return c
}

// TestCommand returns kelson test.
func TestCommand() *cobra.Command {
	var gens Generators
	var releases []string
	c := &cobra.Command{
		Use:   "test [DIR] [-- FLAG…]",
		Short: "Run a project's generators and its tests",
		Long: `Run a project's generators and its tests.

Each test that needs a control plane gets its own from this program.
Arguments after -- are passed to go test. Unless they name packages, ./... is
added.

With --kubernetes, the tests run once for each release of Kubernetes, with control
planes that have the APIs and defaults of that release. For tests with envtest,
KUBEBUILDER_ASSETS must be a folder of kelson envtest.`,
		Example: `  kelson test
  kelson test --kubernetes 1.34,1.37
  kelson test . -- -run Welcome ./internal/controller`,
		RunE: func(c *cobra.Command, args []string) error {
			own, rest := SplitArgs(c, args)
			if len(own) > 1 {
				return fmt.Errorf("unexpected argument %q: put arguments of go test after --", own[1])
			}
			p, err := Open(Folder(own))
			if err != nil {
				return err
			}
			if err := Generate(c, p.Dir, gens); err != nil {
				return err
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			if !hasPackage(rest) {
				rest = append(rest, "./...")
			}
			for _, release := range releases {
				if _, err := emulation.Parse(release); err != nil {
					return fmt.Errorf("--kubernetes: %w", err)
				}
			}
			return testReleases(c, p.Dir, self, releases, append([]string{"test"}, rest...))
		},
	}
	gens.AddFlags(c.Flags())
	gens.AddSkipFlag(c.Flags())
	c.Flags().StringSliceVar(&releases, "kubernetes", nil, "releases of Kubernetes to run the tests for, one after the other, such as 1.34,1.37 (default: $"+emulation.Variable+", or the latest)")
	return c
}

// testReleases runs go test for each release, or once if there are none. If tests fail, the other
// releases are still tested, and the error names those that failed.
func testReleases(c *cobra.Command, dir, self string, releases, args []string) error {
	env := []string{"KELSON=" + self}
	if len(releases) == 0 {
		return RunChild(c.Context(), dir, env, c.OutOrStdout(), c.ErrOrStderr(), "go", args...)
	}
	// go test reuses results if the files and variables that the test's own process reads are the
	// same. It does not know that other processes read the version.
	args = append([]string{args[0], "-count=1"}, args[1:]...)
	var failed []string
	for _, release := range releases {
		fmt.Fprintf(c.OutOrStdout(), "Kubernetes %s:\n", release)
		err := RunChild(c.Context(), dir, append(env, emulation.Variable+"="+release), c.OutOrStdout(), c.ErrOrStderr(), "go", args...)
		switch code := exit.Code(0); {
		case c.Context().Err() != nil:
			return err
		case errors.As(err, &code):
			failed = append(failed, release)
		case err != nil:
			return err
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("tests failed for Kubernetes %s", strings.Join(failed, ", "))
	}
	return nil
}

// hasPackage reports whether arguments of go test name a package by its path.
func hasPackage(args []string) bool {
	for _, a := range args {
		if a != "" && (a[0] == '.' || a[0] == '/') {
			return true
		}
	}
	return false
}

// SplitArgs separates a command's own arguments from those after --.
func SplitArgs(c *cobra.Command, args []string) (own, rest []string) {
	if at := c.ArgsLenAtDash(); at >= 0 {
		return args[:at], args[at:]
	}
	return args, nil
}

// GenerateAndBuild runs the generators of the project in dir and builds its operator to the file
// binary.
func GenerateAndBuild(c *cobra.Command, dir, binary string, gens Generators) (*Project, error) {
	p, err := Open(dir)
	if err != nil {
		return nil, err
	}
	if err := Generate(c, p.Dir, gens); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(binary), 0o755); err != nil {
		return nil, err
	}
	return p, p.Build(c.Context(), binary)
}

// Generate updates all generated parts of a project: code, manifests, and Kelson's requirements
// in go.mod.
func Generate(c *cobra.Command, dir string, gens Generators) error {
	followed, err := scaffold.Follow(dir)
	if err != nil {
		return err
	}
	for _, f := range followed {
		fmt.Fprintf(c.OutOrStdout(), "%-8s %s to match Kelson's source\n", f.What, f.Path)
	}
	return gens.generate(c, dir, nil)
}

// childGrace is how long a child process may take to exit after SIGTERM.
const childGrace = 35 * time.Second

// RunChild runs a program in dir until it exits, with env added to the environment of this process.
// When ctx ends, it sends SIGTERM to the program's process group. It returns a non-zero exit code
// as an exit.Code.
func RunChild(ctx context.Context, dir string, env []string, out, errOut io.Writer, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = out, errOut
	cmd.WaitDelay = childGrace
	err := child.Run(cmd) // a group, so that Ctrl-C reaches the child only once, when ctx ends
	var failed *exec.ExitError
	if errors.As(err, &failed) && failed.ExitCode() > 0 {
		return exit.Code(failed.ExitCode())
	}
	if ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())) {
		return nil
	}
	return err
}
