package vet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// AtRevision returns the definitions in files, or below folders, at a revision of the git
// repository that contains dir. It runs git. It ignores paths that do not exist at the revision,
// and files that cannot be parsed.
func AtRevision(ctx context.Context, dir, revision string, paths ...string) ([]Definition, error) {
	if strings.HasPrefix(revision, "-") {
		return nil, fmt.Errorf("vet: %q is not a revision", revision)
	}
	if _, err := git(ctx, dir, "rev-parse", "--verify", "--quiet", "--end-of-options",
		revision+"^{commit}"); err != nil {
		if _, outside := git(ctx, dir, "rev-parse", "--git-dir"); outside != nil {
			return nil, fmt.Errorf("vet: compare with %s: %w", revision, outside)
		}
		return nil, fmt.Errorf("vet: no revision %q", revision)
	}
	listed, err := git(ctx, dir, append([]string{"ls-tree", "-r", "-z", "--name-only", revision, "--"}, paths...)...)
	if err != nil {
		return nil, fmt.Errorf("vet: compare with %s: %w", revision, err)
	}
	var all []Definition
	for name := range strings.SplitSeq(strings.TrimSuffix(string(listed), "\x00"), "\x00") {
		if !isManifest(name) {
			continue
		}
		content, err := git(ctx, dir, "show", revision+":./"+filepath.ToSlash(name))
		if err != nil {
			return nil, fmt.Errorf("vet: compare with %s: %w", revision, err)
		}
		ms, _ := readAll(bytes.NewReader(content), name, false)
		all = append(all, ms.Definitions()...)
	}
	return all, nil
}

// git runs a git command and returns its output. The error has its standard error.
func git(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "LC_ALL=C")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if text := strings.TrimSpace(complaint.String()); err != nil && text != "" {
		return nil, errors.New(text)
	}
	return out, err
}
