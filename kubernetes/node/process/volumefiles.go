//go:build unix

package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"kelson.dev/kubernetes/node"
)

// writeVolume replaces the contents of a volume with files. Readers get either all previous files
// or all new files: the names in the volume are links through ..data, which changes atomically.
//
//	<dir>/config     → ..data/config
//	<dir>/..data     → ..2841
//	<dir>/..2841/config
//
// This is the layout of kubelets, on which programs that watch such volumes rely.
func writeVolume(dir string, files []node.File, chown func(name string) error) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // independent of the umask
		return err
	}
	version, err := os.MkdirTemp(dir, "..")
	if err != nil {
		return err
	}
	names, err := fill(version, files, chown)
	if err != nil {
		return errors.Join(err, os.RemoveAll(version))
	}
	data, next := filepath.Join(dir, "..data"), filepath.Join(dir, "..data_tmp")
	former, err := os.Readlink(data)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(filepath.Base(version), next); err != nil {
		return err
	}
	if err := os.Rename(next, data); err != nil {
		return err
	}
	if err := link(dir, names); err != nil {
		return err
	}
	if former == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(dir, former))
}

// fill writes files to a new directory and returns the names of its entries.
func fill(dir string, files []node.File, chown func(name string) error) (map[string]bool, error) {
	names := map[string]bool{}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	for _, file := range files {
		name := filepath.Clean(file.Path)
		if !filepath.IsLocal(name) || strings.HasPrefix(name, "..") {
			return nil, fmt.Errorf("invalid path %q", file.Path)
		}
		first, _, _ := strings.Cut(name, "/")
		names[first] = true
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(path, file.Data, 0o600); err != nil {
			return nil, err
		}
		if err := chown(path); err != nil {
			return nil, err
		}
		if err := os.Chmod(path, file.Mode.Perm()); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// link creates the links to the entries with names, and removes all others.
func link(dir string, names map[string]bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "..") || names[entry.Name()] {
			continue
		}
		if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	for name := range names {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil &&
			!errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}
