// Package dropin implements the commands that replace the binaries of envtest: kube-apiserver and
// etcd, and kelson envtest, which links them.
package dropin

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// Names lists the binaries that envtest starts. This binary behaves like each of them if it is
// called by that name.
var Names = []string{"kube-apiserver", "etcd", "kubectl"}

// EnvtestCommand returns kelson envtest.
func EnvtestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "envtest DIR",
		Short: "Create a folder with kube-apiserver, etcd and kubectl for envtest",
		Long: `Create a folder with kube-apiserver, etcd and kubectl for envtest.

Existing test suites run unchanged with KUBEBUILDER_ASSETS=DIR. All three are
links to this binary. kube-apiserver keeps its state in memory; etcd only
answers health checks.`,
		Example: `  kelson envtest bin/envtest
  KUBEBUILDER_ASSETS=$PWD/bin/envtest go test ./...`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
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
				if err := link(self, filepath.Join(dir, name)); err != nil {
					return err
				}
			}
			fmt.Fprintf(c.OutOrStdout(), "export KUBEBUILDER_ASSETS=%s\n", dir)
			return nil
		},
	}
}

// link creates a symbolic link or replaces an existing one. It does not replace other files.
func link(target, name string) error {
	if info, err := os.Lstat(name); err == nil {
		if info.Mode()&os.ModeSymlink == 0 {
			return fmt.Errorf("create link %s: the file exists and is not a symbolic link: remove it or use another folder", name)
		}
		if err := os.Remove(name); err != nil {
			return fmt.Errorf("replace %s: %w", name, err)
		}
	}
	if err := os.Symlink(target, name); err != nil {
		return fmt.Errorf("link %s: %w", name, err)
	}
	return nil
}
