package project

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/child"
	"kelson.dev/cmd/kelson/internal/exit"
	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/kubernetes/emulation"
	"kelson.dev/toolchain/scaffold"
)

// BuildCommand returns kelson build.
func BuildCommand() *cobra.Command {
	var output string
	var gens Generators
	c := &cobra.Command{
		Use:     "build [DIR]",
		Short:   "Run a project's generators and build its operator",
		Example: "  kelson build\n  kelson build ./welcome --output bin/welcome",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := output
			if name == "" {
				name = filepath.Join(Folder(args), "bin", "manager")
			}
			abs, err := filepath.Abs(name)
			if err != nil {
				return err
			}
			p, err := Open(Folder(args))
			if err != nil {
				return err
			}
			if err := Generate(c, p.Dir, gens); err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Dir(abs), 0o755); err != nil {
				return err
			}
			if err := p.Build(c.Context(), abs); err != nil {
				return err
			}
			fmt.Fprintln(c.OutOrStdout(), "built", name)
			return nil
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
			if len(own) == 1 && strings.HasSuffix(own[0], "...") {
				return fmt.Errorf("%s is not a folder: put packages after --, as in kelson test -- %s", own[0], own[0])
			}
			if err := checkReleases(releases); err != nil {
				return fmt.Errorf("--kubernetes: %w", err)
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
			return testReleases(c, p.Dir, self, releases, append([]string{"test"}, withPackages(rest)...))
		},
	}
	gens.AddFlags(c.Flags())
	gens.AddSkipFlag(c.Flags())
	c.Flags().StringSliceVar(&releases, "kubernetes", nil,
		"releases of Kubernetes to run the tests for, one after the other, such as 1.34,1.37 (default: $"+
			emulation.Variable+", or the latest)")
	return c
}

// checkReleases returns an error if a release cannot be emulated, or if envtest would use servers
// that do not emulate releases.
func checkReleases(releases []string) error {
	for _, release := range releases {
		if _, err := emulation.Parse(release); err != nil {
			return err
		}
	}
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if len(releases) == 0 || assets == "" {
		return nil
	}
	if info, err := buildinfo.ReadFile(filepath.Join(assets, "kube-apiserver")); err != nil ||
		!strings.HasPrefix(info.Path, "kelson.dev/cmd/kelson") {
		return fmt.Errorf("the servers in KUBEBUILDER_ASSETS, %s, do not emulate releases: set it to a folder of kelson envtest, or unset it", assets)
	}
	return nil
}

// testReleases runs go test for each release, or once if there are none. If tests fail, the other
// releases are still tested, and the error names those that failed.
func testReleases(c *cobra.Command, dir, self string, releases, args []string) error {
	test := func(args []string, env ...string) error {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(append(os.Environ(), "KELSON="+self), env...)
		cmd.Stdout, cmd.Stderr = output.Raw(c.OutOrStdout()), output.Raw(c.ErrOrStderr())
		// like Ctrl-C in go test: SIGTERM would end the go command before the tests have cleaned up
		return run(c.Context(), cmd, (*child.Group).Interrupt)
	}
	if len(releases) == 0 {
		return test(args)
	}
	// go test reuses results if the files and variables that the test's own process reads are the
	// same. It does not know that other processes read the version.
	args = append([]string{args[0], "-count=1"}, args[1:]...)
	var failed []string
	for _, release := range releases {
		fmt.Fprintf(c.OutOrStdout(), "Kubernetes %s:\n", release)
		err := test(args, emulation.Variable+"="+release)
		switch code := exit.Code(0); {
		case c.Context().Err() != nil:
			return cmp.Or(err, error(exit.Code(1)))
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

// withPackages returns arguments of go test, with the pattern ./... unless they name packages. The
// pattern is the first argument, because go test passes what follows an unknown flag to the tests.
func withPackages(args []string) []string {
	for i := 0; i < len(args); i++ {
		name, isFlag := strings.CutPrefix(args[i], "-")
		name = strings.TrimPrefix(strings.TrimPrefix(name, "-"), "test.")
		switch {
		case !isFlag:
			return args
		case name == "args":
			i = len(args)
		case !strings.Contains(name, "=") && !slices.Contains(switches, name):
			i++ // its value
		}
	}
	return append([]string{"./..."}, args...)
}

// switches are the flags of go test without values.
var switches = strings.Fields("a artifacts asan benchmem c cover failfast fullpath json linkshared modcacherw msan n race short trimpath v work x")

// SplitArgs separates a command's own arguments from those after --.
func SplitArgs(c *cobra.Command, args []string) (own, rest []string) {
	if at := c.ArgsLenAtDash(); at >= 0 {
		return args[:at], args[at:]
	}
	return args, nil
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

// childGrace is how long a child process may take to exit.
const childGrace = 35 * time.Second

// RunChild runs a program in dir until it exits, with env added to the environment of this process.
// When ctx ends, it sends SIGTERM to the program's process group. It returns a non-zero exit code
// as an exit.Code.
func RunChild(ctx context.Context, dir string, env []string, out, errOut io.Writer, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = output.Raw(out), output.Raw(errOut)
	return run(ctx, cmd, (*child.Group).Terminate)
}

// run runs a program until it exits. When ctx ends, it calls stop, and kills the program's process
// group if it does not exit in time. The second signal of exit.OnSignal kills the group too. It
// returns a non-zero exit code as an exit.Code.
func run(ctx context.Context, cmd *exec.Cmd, stop func(*child.Group) error) error {
	cmd.WaitDelay = childGrace // other processes may hold the output open
	// a group, so that Ctrl-C reaches the child only once, when ctx ends
	group, err := child.Start(cmd)
	if err != nil {
		return err
	}
	defer exit.Last(ctx, func() { _ = group.Kill() })()
	exited := make(chan error, 1)
	go func() { exited <- group.Wait() }()
	select {
	case err = <-exited:
	case <-ctx.Done():
		_ = stop(group)
		select {
		case err = <-exited:
		case <-time.After(childGrace):
			_ = group.Kill()
			err = <-exited
		}
	}
	var failed *exec.ExitError
	if errors.As(err, &failed) && failed.ExitCode() > 0 {
		return exit.Code(failed.ExitCode())
	}
	return err
}
