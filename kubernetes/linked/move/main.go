// Move changes the version of Kubernetes in the whole repository: in the go.mod files of all
// modules, in package linked, and in the texts that name it. Then it runs go mod tidy in the
// changed modules and prints what remains to do.
//
//	go run ./kubernetes/linked/move v1.38.0
//
// It changes nothing if the module proxy does not have the version.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/mod/semver"

	"kelson.dev/kubernetes/linked"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: move VERSION")
		os.Exit(2)
	}
	if err := move(ctx, ".", os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "move:", err)
		os.Exit(1)
	}
}

// move changes the repository in root to a version such as v1.38.0.
func move(ctx context.Context, root, version string) error {
	next, err := parse(version)
	if err != nil {
		return err
	}
	for _, module := range []string{"k8s.io/kubernetes@" + next.kubernetes, "k8s.io/api@" + next.libraries} {
		if _, err := run(ctx, root, "go", "list", "-m", module); err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
	}
	files, err := run(ctx, root, "git", "ls-files", "-z")
	if err != nil {
		return err
	}
	present := versions{"v" + linked.Kubernetes, linked.Libraries}
	var modules []string
	for name := range strings.SplitSeq(strings.TrimSuffix(files, "\x00"), "\x00") {
		changed, err := rewrite(filepath.Join(root, name), name, present, next)
		if err != nil {
			return err
		}
		if changed {
			fmt.Println(name)
		}
		if changed && filepath.Base(name) == "go.mod" {
			modules = append(modules, filepath.Join(root, filepath.Dir(name)))
		}
	}
	for _, dir := range modules {
		if err := tidy(ctx, dir, next); err != nil {
			return fmt.Errorf("go mod tidy in %s: %w", dir, err)
		}
	}
	fmt.Printf("\nKubernetes %s → %s. Now follow docs/reference/upgrades.md, from step 2.\n", present.kubernetes,
		next.kubernetes)
	return nil
}

// versions are the versions of k8s.io/kubernetes and of its libraries, with the v.
type versions struct{ kubernetes, libraries string }

// parse returns the versions of a release. Libraries have the minor and patch number of Kubernetes.
func parse(version string) (versions, error) {
	if !semver.IsValid(version) || semver.Canonical(version) != version || semver.Major(version) != "v1" {
		return versions{}, fmt.Errorf("%q is not a version of Kubernetes such as v1.38.0", version)
	}
	return versions{version, "v0" + strings.TrimPrefix(version, "v1")}, nil
}

// unchanged are the files that name the version with which something was measured or released, that
// go mod tidy changes, or that have examples.
var unchanged = regexp.MustCompile(`(^|/)(CHANGELOG\.md|go\.sum|go\.work\.sum)$|^docs/(internals|issues)/|^kubernetes/linked/move/`)

// rewrite replaces the versions in a file, and reports whether it has changed.
func rewrite(path, name string, old, next versions) (bool, error) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || unchanged.MatchString(name) {
		return false, ignoreMissing(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || bytes.IndexByte(data, 0) >= 0 {
		return false, err
	}
	text := replace(string(data), old, next)
	if filepath.Base(name) == "go.mod" && follows(name) {
		text = library.ReplaceAllString(text, "${1}"+next.libraries)
	}
	if text == string(data) {
		return false, nil
	}
	return true, os.WriteFile(path, []byte(text), info.Mode().Perm())
}

// library finds a requirement of a library of Kubernetes at any version but the pseudo-versions of
// those with releases of their own, such as k8s.io/utils.
var library = regexp.MustCompile(`(?m)^(\s*(?:require )?k8s\.io/[a-z-]+ )v0\.(?:[1-9]\d*)\.\S+`)

// ignoreMissing returns nil for a file that git lists and that the work tree does not have.
func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// replace returns text with the next versions in place of the old ones. The version of Kubernetes
// may be without its v only in package linked: other texts without it say what a certain release
// did.
func replace(text string, old, next versions) string {
	text = replaceWord(text, old.kubernetes, next.kubernetes)
	text = replaceWord(text, old.libraries, next.libraries)
	number := func(v versions) string {
		return fmt.Sprintf("const Kubernetes = %q", strings.TrimPrefix(v.kubernetes, "v"))
	}
	return strings.ReplaceAll(text, number(old), number(next))
}

// replaceWord replaces a version that is not part of a longer one.
func replaceWord(text, old, next string) string {
	return regexp.MustCompile(regexp.QuoteMeta(old)+`\b`).ReplaceAllStringFunc(text, func(string) string {
		return next
	})
}

// unlisted finds a library of Kubernetes that go.mod must require, in an error of the go command.
// k8s.io/kubernetes requires its libraries at v0.0.0, which does not exist.
var unlisted = regexp.MustCompile(`k8s\.io/([a-z-]+)@v0\.0\.0\b`)

// tidy runs go mod tidy in a module, and adds the libraries that it misses.
func tidy(ctx context.Context, dir string, next versions) error {
	fmt.Println("go mod tidy in", dir)
	for added := map[string]bool{}; ; {
		_, err := run(ctx, dir, "go", "mod", "tidy")
		if err == nil {
			return nil
		}
		missing := unlisted.FindStringSubmatch(err.Error())
		if missing == nil || added[missing[1]] {
			return err
		}
		added[missing[1]] = true
		if _, err := run(ctx, dir, "go", "mod", "edit", "-require=k8s.io/"+missing[1]+"@"+next.libraries); err != nil {
			return err
		}
		fmt.Println("added k8s.io/" + missing[1])
	}
}

// run runs a program outside of the workspace and returns its output. Errors contain what it wrote
// to stderr.
func run(ctx context.Context, dir, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return string(out), nil
}

// follows reports whether a go.mod has the version of Kubernetes that the product is built with.
// Test data and the operators on older versions, with which kelson explore is tested, do not.
func follows(name string) bool {
	return !strings.Contains(name, "testdata/") && !strings.HasPrefix(name, "bench/explore/versions/")
}
