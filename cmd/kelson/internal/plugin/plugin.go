// Package plugin implements kelson kubectl-plugin, which makes the commands that act on a cluster
// available as kubectl kelson, and writes the manifest for Krew.
package plugin

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Names by which kubectl calls this binary.
const (
	Name     = "kubectl-kelson"          // for kubectl kelson …
	Complete = "kubectl_complete-kelson" // to complete a command line of kubectl kelson
)

// Command returns kelson kubectl-plugin.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "kubectl-plugin",
		Short: "Make the commands that act on a cluster available as kubectl kelson",
		Args:  cobra.NoArgs,
	}
	c.AddCommand(installCommand(), krewCommand())
	return c
}

func installCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "install",
		Short: "Install the plugin for kubectl",
		Long: `Install the plugin for kubectl.

It links two names to this binary: kubectl-kelson, which kubectl runs for
"kubectl kelson", and kubectl_complete-kelson, which completes its command lines.
The folder must be in $PATH. The links remain valid when the binary is replaced.
On Windows without the right to make symbolic links, it makes hard links, or copies:
remove them and install the plugin again when the binary is replaced.`,
		Example: `  kelson kubectl-plugin install
  kubectl kelson why pod/web --trace operator.trace`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			if dir == "" {
				if dir, err = folder(filepath.Dir(self)); err != nil {
					return err
				}
			}
			return install(self, dir, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "folder for the links (default: the folder of kelson, if it is in $PATH, or ~/.local/bin)")
	return c
}

// folder returns the directory for the plugin: that of the binary if kubectl looks for plugins
// there.
func folder(own string) (string, error) {
	if inPath(own) {
		return own, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("%w: name a folder with --dir", err)
	}
	return filepath.Join(home, ".local", "bin"), nil
}

func inPath(dir string) bool {
	return slices.ContainsFunc(filepath.SplitList(os.Getenv("PATH")), func(p string) bool {
		a, errA := os.Stat(p)
		b, errB := os.Stat(dir)
		return errA == nil && errB == nil && os.SameFile(a, b)
	})
}

func install(self, dir string, out, errOut io.Writer) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{Name, Complete} {
		if runtime.GOOS == "windows" {
			name += ".exe"
		}
		path := filepath.Join(dir, name)
		if err := link(self, path, ways(runtime.GOOS)...); err != nil {
			return fmt.Errorf("install %s: %w", path, err)
		}
		fmt.Fprintf(out, "installed  %s\n", path)
	}
	if !inPath(dir) {
		fmt.Fprintf(errOut, "kelson: %s is not in $PATH: kubectl does not find the plugin there\n", dir)
	}
	return nil
}

// ways returns the ways to give a file another name on a system, the best first. Symbolic links
// remain valid when the file is replaced. Most users of Windows may not make them; hard links need
// one volume with a file system that has them.
func ways(goos string) []func(file, name string) error {
	if goos == "windows" {
		return []func(file, name string) error{os.Symlink, os.Link, duplicate}
	}
	return []func(file, name string) error{os.Symlink}
}

// link makes path another name of the file self in the first way that succeeds, and replaces a link
// from an earlier call. It does not replace other files.
func link(self, path string, ways ...func(file, name string) error) error {
	if info, err := os.Lstat(path); err == nil {
		target, statErr := os.Stat(path)
		selfInfo, selfErr := os.Stat(self)
		if info.Mode()&os.ModeSymlink == 0 && !(statErr == nil && selfErr == nil && os.SameFile(target, selfInfo)) {
			return errors.New("the file exists and is not a link to kelson: remove it first")
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	var errs []error
	for _, way := range ways {
		err := way(self, path)
		if err == nil {
			_, err = os.Stat(path) // Wine's symbolic links succeed without creating anything
		}
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// duplicate copies a file to a new file.
func duplicate(file, name string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// Arguments returns the arguments of kelson for a call by one of the names, without the program,
// and whether invoked is one of them.
func Arguments(invoked string, args []string) ([]string, bool) {
	switch strings.TrimSuffix(filepath.Base(invoked), ".exe") {
	case Name:
		return args, true
	case Complete:
		return append([]string{cobra.ShellCompRequestCmd}, args...), true
	}
	return nil, false
}

// Commands are the names of the commands that kubectl kelson has.
var Commands = []string{"blame", "console", "diff", "explore", "history", "plan", "record", "rights", "version", "vet",
	"why"}

// Root makes root the command kubectl kelson: it removes the commands that do not act on a cluster.
func Root(root *cobra.Command) {
	for _, c := range root.Commands() {
		if !slices.Contains(Commands, c.Name()) {
			root.RemoveCommand(c)
		}
	}
	root.CompletionOptions.DisableDefaultCmd = true // kubectl completes its plugins itself
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl kelson"}
	root.Short = "See why a cluster is in its state"
}
