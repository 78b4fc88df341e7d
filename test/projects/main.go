// Command projects runs kelson on unchanged public operator projects, and replaces the table of
// docs/internals/projects.md: a row for each project, a cell for each command. It neither compiles
// nor runs the projects.
//
//	go run ./test/projects -kelson bin/kelson -helm bin/peers/helm \
//		-controller-gen bin/peers/controller-gen -docs docs/internals/projects.md
//
// The file projects.txt lists the projects and has the rule by which they were chosen. It clones
// each at its commit to bin/projects. With -sources, the clones come from DIR/OWNER+NAME/repo
// instead of GitHub; files that such a copy lacks, which are binaries, are left out. Projects that
// exist already are not cloned again.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"kelson.dev/test/section"
	"kelson.dev/toolchain/adopt"
)

//go:embed projects.txt
var list string

// project is a repository at a commit.
type project struct{ repo, commit string }

// projects returns the projects of the list.
func projects() (all []project) {
	for line := range strings.Lines(list) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] != "#" {
			all = append(all, project{fields[0], fields[1]})
		}
	}
	return all
}

const (
	begin = "<!-- projects -->\n"
	end   = "<!-- end of projects -->"
)

func main() {
	c := &checker{}
	flag.StringVar(&c.kelson, "kelson", "bin/kelson", "kelson's binary")
	flag.StringVar(&c.helm, "helm", "bin/peers/helm", "Helm's binary")
	flag.StringVar(&c.controllerGen, "controller-gen", "bin/peers/controller-gen", "controller-gen's binary")
	flag.StringVar(&c.sources, "sources", os.Getenv("SOURCES"),
		"folder with OWNER+NAME/repo, git directories to clone from instead of GitHub")
	flag.StringVar(&c.work, "work", "bin/projects", "folder of the clones")
	docs := flag.String("docs", "", "page in which the table is replaced")
	only := flag.String("run", "", "only the repositories that match this expression; the table is not written")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	match, err := regexp.Compile(*only)
	if err == nil {
		if *only != "" {
			*docs = ""
		}
		err = c.run(ctx, match, *docs)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "projects:", err)
		os.Exit(1)
	}
}

// checker runs the commands in the projects.
type checker struct{ kelson, helm, controllerGen, sources, work string }

func (c *checker) run(ctx context.Context, match *regexp.Regexp, docs string) error {
	for _, path := range []*string{&c.kelson, &c.helm, &c.controllerGen, &c.work} {
		abs, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = abs
	}
	var rows strings.Builder
	good := make([]int, len(columns))
	total := 0
	for _, p := range projects() {
		if !match.MatchString(p.repo) {
			continue
		}
		dir := filepath.Join(c.work, strings.ReplaceAll(p.repo, "/", "+"))
		if err := c.clone(ctx, p, dir); err != nil {
			return fmt.Errorf("clone %s: %w", p.repo, err)
		}
		total++
		fmt.Printf("%s\n", p.repo)
		fmt.Fprintf(&rows, "| [%s](https://github.com/%s/tree/%s) | %s |", p.repo, p.repo, p.commit,
			controllerRuntime(dir))
		cells, err := c.check(ctx, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", p.repo, err)
		}
		for i, cell := range cells {
			if cell.ok {
				good[i]++
			}
			fmt.Printf("  %-10s %s\n", columns[i], cell)
			fmt.Fprintf(&rows, " %s |", cell.short())
		}
		rows.WriteString("\n")
	}
	var head strings.Builder
	head.WriteString("| project | controller-runtime |")
	for i, name := range columns {
		fmt.Fprintf(&head, " %s: %d of %d |", name, good[i], total)
	}
	head.WriteString("\n|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
	fmt.Print(head.String())
	if docs == "" {
		return nil
	}
	return section.Replace(docs, begin, end, head.String()+rows.String())
}

// clone writes the files of a project at its commit to dir, unless it exists.
func (c *checker) clone(ctx context.Context, p project, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	const fetch = `cd "$3" && git init -q && git fetch -q --depth=1 "$1" "$2" && git checkout -q --force FETCH_HEAD && rm -rf .git`
	script, from := fetch, "https://github.com/"+p.repo
	if c.sources != "" {
		script, from = checkout, filepath.Join(c.sources, strings.ReplaceAll(p.repo, "/", "+"), "repo")
		if _, err := os.Stat(filepath.Join(from, ".git")); err == nil {
			from = filepath.Join(from, ".git")
		}
	}
	if out, err := exec.CommandContext(ctx, "sh", "-c", script, "sh", from, p.commit,
		dir).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// checkout writes the files of a commit, except for binaries that the copy of the repository lacks.
const checkout = `export GIT_INDEX_FILE="$3/.index"
git --git-dir="$1" --work-tree="$3" read-tree "$2" || exit 1
git --git-dir="$1" --work-tree="$3" checkout-index -a -q
rm "$GIT_INDEX_FILE"
git --git-dir="$1" ls-tree -r --name-only "$2" | while IFS= read -r name; do
	if [ ! -e "$3/$name" ] && [ ! -h "$3/$name" ]; then
		case "$name" in *.go|*.yaml|*.yml|*.mod|*.sum|*Makefile*) echo "missing: $name"; exit 1;; esac
	fi
done`

var requirement = regexp.MustCompile(`sigs\.k8s\.io/controller-runtime (v\S+)`)

// controllerRuntime returns the version of controller-runtime that a project requires.
func controllerRuntime(dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return ""
	}
	if m := requirement.FindSubmatch(data); m != nil {
		return string(m[1])
	}
	return "none"
}

// columns are the commands, in the order of check.
var columns = []string{"generate", "vet", "installer", "helm", "explore --check"}

// cell is the outcome of a command in a project.
type cell struct {
	ok   bool
	text string
}

// String returns the whole text.
func (c cell) String() string { return strings.ReplaceAll(c.text, "\n", "\n             ") }

// short returns the first line, as the content of a cell of a table.
func (c cell) short() string {
	line, _, _ := strings.Cut(c.text, "\n")
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`).Replace(line)
}

// check runs the commands in copies of a project, because they write files.
func (c *checker) check(ctx context.Context, dir string) ([]cell, error) {
	copied, err := os.MkdirTemp(c.work, "copy-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(copied)
	work := filepath.Join(copied, filepath.Base(dir))
	if err := os.CopyFS(work, os.DirFS(dir)); err != nil {
		return nil, err
	}
	generated := c.generate(ctx, work)
	if differing.MatchString(generated.text) {
		if generated, err = c.regenerate(ctx, dir, generated); err != nil {
			return nil, err
		}
	}
	cells := []cell{generated, c.vet(ctx, work)}
	installer, chart := filepath.Join(copied, "install.yaml"), filepath.Join(copied, "chart")
	made := outcome(c.command(ctx, work, "package", "installer", "-o", installer))
	cells = append(cells, made)
	charted := outcome(c.command(ctx, work, "package", "helm", "-o", chart))
	if charted.ok && made.ok {
		charted = c.compare(ctx, installer, chart)
	}
	cells = append(cells, charted, c.explore(ctx, work))
	for i := range cells {
		cells[i].text = strings.ReplaceAll(strings.ReplaceAll(cells[i].text, work+"/", ""), work, ".")
	}
	return cells, nil
}

// command runs kelson in a project and returns what it prints.
func (c *checker) command(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.kelson, args...)
	cmd.Dir, cmd.Env = dir, environment()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		return "", err
	}
	return out.String(), err
}

// environment makes the go command read projects as they are: with go.mod files that lack lines.
func environment() []string { return append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod") }

// outcome is "ok" or the error that kelson printed.
func outcome(out string, err error) cell {
	if err == nil {
		return cell{true, "ok"}
	}
	return cell{false, message(out, err)}
}

// message returns the lines of an error of kelson, which begins with its name.
func message(out string, err error) string {
	if at := strings.Index("\n"+out, "\nkelson: "); at >= 0 {
		return strings.TrimSpace(out[at+len("kelson: "):])
	}
	return err.Error() + ": " + strings.TrimSpace(out)
}

var outdated = regexp.MustCompile(`(?m)^kelson: generated files are not up to date: \[(.*)\] \(run`)

// differing matches the cell of a project whose committed files are not those that Kelson
// generates.
var differing = regexp.MustCompile(`^differ: `)

// generate compares the committed files with the generated ones.
func (c *checker) generate(ctx context.Context, dir string) cell {
	out, err := c.command(ctx, dir, "generate", "--check")
	if err == nil && strings.Contains(out, "nothing to generate") {
		return cell{true, "nothing to generate"}
	}
	if err == nil {
		return cell{true, "equal"}
	}
	if m := outdated.FindStringSubmatch(out); m != nil {
		return cell{false, "differ: " + m[1]}
	}
	return cell{false, message(out, err)}
}

// regenerate tells files that are older than the project's types, or that somebody edited, from
// files that Kelson generates differently: it runs controller-gen in a copy of a project as the
// project does, and compares again. If controller-gen's files are the ones that Kelson generates,
// the committed ones are stale.
func (c *checker) regenerate(ctx context.Context, dir string, before cell) (cell, error) {
	work, err := os.MkdirTemp(c.work, "regenerated-")
	if err != nil {
		return cell{}, err
	}
	defer os.RemoveAll(work)
	if err := os.CopyFS(work, os.DirFS(dir)); err != nil {
		return cell{}, err
	}
	plan, err := adopt.Find(work)
	if err != nil {
		return cell{}, err
	}
	var failed []string
	for _, call := range plan.Calls {
		cmd := exec.CommandContext(ctx, c.controllerGen, current(call.Args)...)
		cmd.Dir, cmd.Env = call.Dir, environment()
		if out, err := cmd.CombinedOutput(); err != nil {
			failed = append(failed, fmt.Sprintf("controller-gen %s: %v\n%s", strings.Join(call.Args, " "), err, out))
		}
	}
	after := c.generate(ctx, work)
	if after.ok {
		return cell{true, strings.Replace(before.text, "differ: ", "stale: ", 1)}, nil
	}
	after.text = strings.Join(append([]string{after.text}, failed...), "\n")
	return after, nil
}

// current returns arguments without the options of former versions that controller-gen rejects.
func current(args []string) (now []string) {
	for _, arg := range args {
		if name, options, ok := strings.Cut(arg, ":"); ok && name == "crd" {
			kept := slices.DeleteFunc(strings.Split(options, ","), func(option string) bool {
				return strings.HasPrefix(option, "trivialVersions=") || strings.HasPrefix(option, "preserveUnknownFields=")
			})
			arg = strings.TrimSuffix(name+":"+strings.Join(kept, ","), ":")
		}
		now = append(now, arg)
	}
	return now
}

// vet counts the findings, which are faults of the project.
func (c *checker) vet(ctx context.Context, dir string) cell {
	out, err := c.command(ctx, dir, "vet")
	if m := findings.FindStringSubmatch(out); m != nil {
		return cell{true, fmt.Sprintf("%s errors, %s warnings\n%s", m[1], m[2], strings.TrimSpace(out))}
	}
	return outcome(out, err)
}

// findings matches the last line of kelson vet.
var findings = regexp.MustCompile(`(?m)^\d+ objects?: (\d+) errors?, (\d+) warnings?$`)
