package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// source is a commit, written to a folder.
type source struct {
	dir     string
	commit  string
	version string
	at      time.Time // time of the commit, in UTC
	// uncommitted is the number of changed files of the work tree, which are not in the folder.
	uncommitted int
}

// export writes the newest commit of a repository to a folder. The version is the given one, or the
// commit's tag, or a pseudo-version after the newest tag before it, as the go command makes them.
func export(ctx context.Context, repository, dir, version string) (*source, error) {
	git := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = repository
		output, err := cmd.Output()
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("git %s: %s", args[0], bytes.TrimSpace(failed.Stderr))
		}
		return strings.TrimSpace(string(output)), err
	}
	var err error
	s := &source{dir: dir, version: version}
	if s.commit, err = git("rev-parse", "HEAD"); err != nil {
		return nil, err
	}
	at, err := git("show", "-s", "--format=%cI", "HEAD")
	if err != nil {
		return nil, err
	}
	if s.at, err = time.Parse(time.RFC3339, at); err != nil {
		return nil, err
	}
	s.at = s.at.UTC()
	changed, err := git("status", "--porcelain")
	if err != nil {
		return nil, err
	}
	s.uncommitted = len(strings.FieldsFunc(changed, func(r rune) bool { return r == '\n' }))
	if s.version == "" {
		// without a tag before the commit, describe fails
		before, _ := git("describe", "--tags", "--abbrev=0", "--match=v[0-9]*", "HEAD")
		exact, _ := git("describe", "--tags", "--exact-match", "--match=v[0-9]*", "HEAD")
		if s.version = exact; exact == "" {
			s.version = module.PseudoVersion("v0", before, s.at, s.commit[:12])
		}
	}
	if semver.Canonical(s.version) != s.version {
		return nil, fmt.Errorf("version %q: want a semantic version, such as v1.2.3", s.version)
	}
	archive := exec.CommandContext(ctx, "git", "archive", "--format=tar", s.commit)
	archive.Dir, archive.Stderr = repository, os.Stderr
	files, err := archive.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := archive.Start(); err != nil {
		return nil, err
	}
	unpacked := unpack(files, dir)
	return s, errors.Join(unpacked, archive.Wait())
}

// goCommand runs the go command in a folder below the source and returns what it prints.
func (s *source) goCommand(ctx context.Context, dir string, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	// Flags of the user could change the result.
	cmd.Env = append(append(os.Environ(), "GOFLAGS=", "GOWORK=", "CGO_ENABLED=0"), env...)
	cmd.Dir = filepath.Join(s.dir, dir)
	output, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("go %s %s: %w\n%s", args[0], strings.Join(env, " "), err, bytes.TrimSpace(failed.Stderr))
	}
	return output, err
}
