// Package dropin implements the commands that replace the binaries of envtest: kube-apiserver and
// etcd, and kelson envtest, which links them.
package dropin

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// Names lists the binaries that envtest starts. This binary behaves like each of them if it is
// called by that name.
var Names = []string{"kube-apiserver", "etcd", "kubectl"}

// EnvtestCommand returns kelson envtest.
func EnvtestCommand() *cobra.Command {
	var printPath bool
	c := &cobra.Command{
		Use:   "envtest [DIR]",
		Short: "Create a folder with kube-apiserver, etcd and kubectl for envtest",
		Long: `Create a folder with kube-apiserver, etcd and kubectl for envtest.

Existing test suites run unchanged with KUBEBUILDER_ASSETS=DIR. All three are
this binary: hard links to it, or to a copy of it if DIR is on another file
system. They work after DIR or kelson is moved; run the command again after an
update of kelson. The default of DIR is a folder in the user's cache.

kube-apiserver keeps its state in memory; etcd only answers health checks. Both
end when the process that started them ends.`,
		Example: `  kelson envtest bin/envtest
  KUBEBUILDER_ASSETS=$(kelson envtest --print-path) go test ./...`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := assets(args)
			if err != nil {
				return err
			}
			if err := install(dir); err != nil {
				return err
			}
			if printPath {
				fmt.Fprintln(c.OutOrStdout(), dir)
			} else {
				fmt.Fprintf(c.OutOrStdout(), "export KUBEBUILDER_ASSETS=%s\n", dir)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&printPath, "print-path", false, "print only the path of the folder")
	return c
}

// assets returns the absolute path of the folder.
func assets(args []string) (string, error) {
	if len(args) > 0 {
		return filepath.Abs(args[0])
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the default folder: %w", err)
	}
	return filepath.Join(cache, "kelson", "envtest"), nil
}

// install creates the folder with its three programs.
func install(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this binary: %w", err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return fmt.Errorf("find this binary: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create %s: %w", dir, err)
	}
	for _, name := range Names {
		if self, err = place(self, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// place makes name another name of the program, or a copy of it if the file system cannot link it.
// It returns the file to link next. It replaces symbolic links and programs of an earlier call, but
// no other files.
func place(program, name string) (string, error) {
	have, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", fmt.Errorf("create %s: %w", name, err)
	case have.Mode()&os.ModeSymlink == 0 && !isKelson(name):
		return "", fmt.Errorf("create %s: the file exists and is not kelson: remove it or use another folder", name)
	}
	if current, err := os.Stat(program); err == nil && have != nil && os.SameFile(current, have) {
		return program, nil
	}
	// a running server keeps its file
	temp := name + ".new"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("create %s: %w", name, err)
	}
	next := program
	if err := os.Link(program, temp); err != nil {
		if err := copyFile(program, temp); err != nil {
			return "", fmt.Errorf("copy kelson to %s: %w", name, err)
		}
		next = name
	}
	if err := os.Rename(temp, name); err != nil {
		return "", fmt.Errorf("create %s: %w", name, err)
	}
	return next, nil
}

// isKelson reports whether a file is a binary of kelson.
func isKelson(name string) bool {
	info, err := buildinfo.ReadFile(name)
	return err == nil && info.Path == "kelson.dev/cmd/kelson"
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
