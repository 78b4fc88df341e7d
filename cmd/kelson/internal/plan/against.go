package plan

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"kelson.dev/cmd/kelson/internal/project"
)

// otherVersion returns the version of the operator that --against names: a program, the folder of a
// project, or a git revision of this project.
func otherVersion(ctx context.Context, p *project.Project, name, temp string) (*operatorProcess, error) {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		old, err := project.Open(name)
		if err != nil {
			return nil, fmt.Errorf("--against: %w", err)
		}
		return build(ctx, old, temp)
	case err == nil && info.Mode()&0o111 != 0:
		binary, err := filepath.Abs(name)
		if err != nil {
			return nil, err
		}
		return configured(p, binary)
	case err == nil:
		return nil, fmt.Errorf("--against %s: neither a folder nor a program", name)
	}
	old, err := checkout(ctx, p, name, filepath.Join(temp, "source"))
	if err != nil {
		return nil, fmt.Errorf("--against %s: no such file or folder, and %w", name, err)
	}
	return build(ctx, old, temp)
}

// checkout writes a git revision of the repository with the project to a folder, and opens the
// project there. It does not change the repository.
func checkout(ctx context.Context, p *project.Project, revision, to string) (*project.Project, error) {
	top, err := git(ctx, p.Dir, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	commit, err := git(ctx, p.Dir, "rev-parse", "--verify", "--quiet", "--end-of-options", revision+"^{commit}")
	if err != nil {
		return nil, fmt.Errorf("the repository %s has no revision %q", top, revision)
	}
	below, err := git(ctx, p.Dir, "rev-parse", "--show-prefix")
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "git", "archive", "--format=tar", commit)
	cmd.Dir = top
	stream, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if err := errors.Join(unpack(stream, to), cmd.Wait()); err != nil {
		return nil, fmt.Errorf("read revision %s: %w", revision, err)
	}
	return project.Open(filepath.Join(to, filepath.FromSlash(below)))
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("git %s: %s", args[0], strings.TrimSpace(string(failed.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}

// unpack writes the files of an archive to a folder.
func unpack(from io.Reader, to string) error {
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !filepath.IsLocal(h.Name) {
			continue // git's global header of the archive, which is not a file
		}
		name := filepath.Join(to, h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.MkdirAll(name, 0o755)
		case tar.TypeSymlink:
			err = os.Symlink(h.Linkname, name)
		case tar.TypeReg:
			err = write(name, r, h.FileInfo().Mode().Perm())
		}
		if err != nil {
			return err
		}
	}
}

func write(name string, from io.Reader, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}
