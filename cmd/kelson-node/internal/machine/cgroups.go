//go:build linux

package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// CreateCgroup creates a cgroup of version 1 for all controllers of the machine, and returns its
// path as kubelet expects it.
func CreateCgroup(name string) (string, error) {
	all, err := hierarchies()
	if err != nil {
		return "", err
	}
	for _, h := range all {
		if err := os.Mkdir(filepath.Join(h, name), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("create a cgroup for the pods: %w", err)
		}
	}
	return "/" + name, nil
}

// RemoveCgroup removes a cgroup of version 1 and the cgroups below it, which must have no
// processes.
func RemoveCgroup(name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		var dirs []string
		err := filepath.WalkDir(filepath.Join(h, name), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("find the cgroups of the pods: %w", err)
		}
		for _, dir := range slices.Backward(dirs) {
			if err := os.Remove(dir); err != nil {
				return fmt.Errorf("remove the cgroups of the pods: %w", err)
			}
		}
	}
	return nil
}

// hierarchies returns the directories at which cgroups of version 1 are mounted, and that of
// version 2, which runc also uses. Controllers that share a hierarchy are links to one directory.
func hierarchies() ([]string, error) {
	entries, err := os.ReadDir(cgroups)
	if err != nil {
		return nil, fmt.Errorf("cgroups: %w", err)
	}
	var all []string
	for _, e := range entries {
		if e.IsDir() {
			all = append(all, filepath.Join(cgroups, e.Name()))
		}
	}
	return all, nil
}
