// Command operators runs kelson's generators on unchanged public projects, and lists which of the
// committed files have the same meaning as the generated ones. With -dev, it runs their operators
// with kelson dev instead, until each has reconciled a sample.
//
//	go run ./test/operators -kelson bin/kelson -docs docs/internals/operators.md
//	go run ./test/operators -dev -kelson bin/kelson -docs docs/internals/operators-dev.md
//
// It clones each project at a fixed commit to bin/operators. With -sources, the clones come from
// DIR/OWNER+NAME/repo instead of GitHub. Projects that exist already are not cloned again.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// project is a repository at a commit.
type project struct {
	repo, commit, version string
	// note explains why files differ, or describes the project.
	note string
}

var projects = []project{
	{"cloudnative-pg/cloudnative-pg", "a95a534dbe0854495b863bbc1b7651f74d310916", "v1.30.0-86",
		"controller-gen copies a type behind an alias field by field, which Kelson assigns"},
	{"fluxcd/kustomize-controller", "186fb3b29138ce82ff61ba1a9370b96a3dd598fe", "v1.9.0-36",
		"PROJECT of version 2; the API is a module of its own"},
	{"fluxcd/notification-controller", "2e46958a67f3af0e3e755a4fcaf7397d5803725e", "v1.9.0-37",
		"as kustomize-controller"},
	{"fluxcd/source-controller", "39b711b111fa906c3db0a424e252a5d12e48646d", "v1.9.0-13", "as kustomize-controller"},
	{"grafana/grafana-operator", "60d3ebd2b21a7736970cac8964aa71f7a4ac2ecc", "v5.24.0-124",
		"its Makefile edits the definition with yq"},
	{"hashicorp/vault-secrets-operator", "9b840a5a0c3455278d580418d6336f2011cf8574", "v1.4.1", "operator-sdk"},
	{"kedacore/keda", "8b4f083ca8c8c2baf8477e322bd4d16ac4dfa09a", "v2.20.1-117", "operator-sdk"},
	{"kubernetes-sigs/cluster-api-operator", "46918b657109212410b71c7e0401f63b0198406d", "v0.28.0-2", ""},
	{"kubernetes-sigs/jobset", "08dfbdfd682714a9ab929633eca8dc95315187e7", "v0.13.0-devel-43", ""},
	{"kubernetes-sigs/kueue", "ff69552e79ad21652c36caa97038382e55625cf7", "v0.20.0-devel-377", ""},
	{"kubernetes-sigs/lws", "060ab4da17eea1f0865fcbd3236bb1075e2cea32", "v0.10.0-11", ""},
	{"rabbitmq/cluster-operator", "06cda8e8e1a927a652dda20a1b169fe7667f4916", "v2.22.3-29",
		"its scripts remove descriptions"},
	{"redhat-cop/namespace-configuration-operator", "8eaa74be68e8a1489757ed50d41c2dfdfb95c988", "v1.2.6-7",
		"operator-sdk, controller-gen v0.11"},
}

func main() {
	kelson := flag.String("kelson", "bin/kelson", "kelson's binary")
	docs := flag.String("docs", "", "file to write the table to")
	sources := flag.String("sources", os.Getenv("SOURCES"),
		"folder with OWNER+NAME/repo, git directories to clone from instead of GitHub")
	work := flag.String("work", "bin/operators", "folder of the clones")
	dev := flag.Bool("dev", false, "run kelson dev in the projects until a sample is reconciled")
	only := flag.String("run", "", "with -dev, only the repositories that match this expression")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *dev {
		var match *regexp.Regexp
		if match, err = regexp.Compile(*only); err == nil {
			err = runDev(ctx, *kelson, *docs, *sources, *work, match)
		}
	} else {
		err = run(ctx, *kelson, *docs, *sources, *work)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "operators:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kelson, docs, sources, work string) error {
	kelson, err := filepath.Abs(kelson)
	if err != nil {
		return err
	}
	var table strings.Builder
	equal, failed := 0, 0
	for _, p := range projects {
		dir := filepath.Join(work, filepath.Base(p.repo))
		if err := clone(ctx, p, sources, dir); err != nil {
			return fmt.Errorf("clone %s: %w", p.repo, err)
		}
		r := check(ctx, kelson, dir)
		fmt.Printf("%-45s %s\n", p.repo, r)
		if r.failed {
			failed++
		} else if len(r.stale) == 0 {
			equal++
		}
		fmt.Fprintf(&table, "| [%s](https://github.com/%s) %s | %d | %s | %d ms | %s |\n", p.repo, p.repo, p.version,
			r.files, r.result(), r.took.Milliseconds(), p.note)
	}
	fmt.Printf("%d of %d projects: all generated files mean the same as the committed ones\n", equal, len(projects))
	if docs != "" {
		page := fmt.Sprintf(page, equal, len(projects), table.String())
		if err := os.WriteFile(docs, []byte(page), 0o644); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("the generators failed in %d projects", failed)
	}
	return nil
}

// clone checks out a project at its commit, unless dir exists.
func clone(ctx context.Context, p project, sources, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	from := "https://github.com/" + p.repo
	if sources != "" {
		return unpack(ctx, filepath.Join(sources, strings.ReplaceAll(p.repo, "/", "+"), "repo"), p.commit, dir)
	}
	for _, args := range [][]string{{"init", "-q"}, {"fetch", "-q", "--depth=1", from, p.commit},
		{"checkout", "-q", "--force", "FETCH_HEAD"}} {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w\n%s", args[0], err, out)
		}
	}
	return nil
}

// unpack writes the files of a commit, except websites, to dir.
func unpack(ctx context.Context, from, commit, dir string) error {
	const script = `git -C "$1" archive "$2" -- . ':(exclude)docs' ':(exclude)site' | tar -x -C "$3"`
	if out, err := exec.CommandContext(ctx, "sh", "-c", script, "sh", from, commit, dir).CombinedOutput(); err != nil {
		return fmt.Errorf("git archive: %w\n%s", err, out)
	}
	return nil
}

// report is the outcome of kelson generate --check.
type report struct {
	files  int
	stale  []string
	failed bool
	output string
	took   time.Duration
}

var (
	upToDate = regexp.MustCompile(`(?m)^(\d+) generated files are up to date$`)
	outdated = regexp.MustCompile(`(?m)^kelson: generated files are not up to date: \[(.*)\] \(run`)
)

// check runs the generators twice: the first run may download modules, the second is timed.
func check(ctx context.Context, kelson, dir string) report {
	var r report
	for range 2 {
		begin := time.Now()
		cmd := exec.CommandContext(ctx, kelson, "generate", "--check")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		out, _ := cmd.CombinedOutput()
		r = report{output: string(out), took: time.Since(begin)}
	}
	switch {
	case upToDate.MatchString(r.output):
		_, _ = fmt.Sscan(upToDate.FindStringSubmatch(r.output)[1], &r.files)
	case outdated.MatchString(r.output):
		r.stale = strings.Fields(outdated.FindStringSubmatch(r.output)[1])
	default:
		r.failed = true
	}
	return r
}

func (r report) result() string {
	switch {
	case r.failed:
		return "failed"
	case len(r.stale) > 0:
		return "differ: `" + strings.Join(r.stale, "`, `") + "`"
	}
	return "equal"
}

func (r report) String() string {
	if r.failed {
		return "failed\n" + r.output
	}
	return fmt.Sprintf("%s (%d files, %s)", r.result(), r.files, r.took.Round(time.Millisecond))
}

const page = `<!-- Written by test/operators (make operators). DO NOT EDIT. -->

# Public operators

` + "`make operators`" + ` clones public projects at fixed commits and runs ` + "`kelson generate --check`" + `
in each, with no other preparation and no flags. Kelson adopts what the project's Makefile and
scripts pass to controller-gen ([existing projects](../guides/existing-projects.md)) and compares
the result with the committed definitions, roles, webhook configurations and copy methods. In %d of
%d projects, all of them mean the same.

Files mean the same if they have the same objects or functions. The comparison ignores
controller-gen's version annotation, the order of webhooks, how rules are merged, line breaks in
descriptions, descriptions that the project removes, and names of imports and type aliases.

| project | files | committed files | time | |
|---|---|---|---|---|
%s`
