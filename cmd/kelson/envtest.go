package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

// dropIns are the names of the commands that envtest starts; this binary answers to them.
var dropIns = []string{"kube-apiserver", "etcd", "kubectl"}

func envtestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "envtest DIR",
		Short: "Fill a folder with kube-apiserver, etcd and kubectl for envtest",
		Long: `Fill a folder with kube-apiserver, etcd and kubectl for envtest.

Existing test suites run unchanged with KUBEBUILDER_ASSETS=DIR. All three are this
one binary under other names; the state is kept by kube-apiserver, in memory,
and etcd only answers that it is healthy.`,
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
				return fmt.Errorf("make %s: %w", dir, err)
			}
			for _, name := range dropIns {
				if err := link(self, filepath.Join(dir, name)); err != nil {
					return err
				}
			}
			fmt.Fprintf(c.OutOrStdout(), "export KUBEBUILDER_ASSETS=%s\n", dir)
			return nil
		},
	}
}

// link puts a symbolic link in the place of an older one; it replaces no file of another kind.
func link(target, name string) error {
	if info, err := os.Lstat(name); err == nil {
		if info.Mode()&os.ModeSymlink == 0 {
			return fmt.Errorf("%s is there already, and is not a link of ours: give another folder", name)
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
