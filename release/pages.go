package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"text/template"
	"time"
)

// completions are the shells that cobra completes for, with the names of the files.
var completions = []struct{ shell, file string }{
	{"bash", "completions/kelson.bash"}, {"zsh", "completions/_kelson"}, {"fish", "completions/kelson.fish"},
	{"powershell", "completions/kelson.ps1"},
}

// readme is the README of the archives.
//
//go:embed readme.tmpl
var readme string

// generatePages runs kelson to generate completions and manual pages.
func (r *release) generatePages(ctx context.Context) error {
	text, err := execute(readme, r.about())
	if err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(r.src.dir, "LICENSE"))
	if err != nil {
		return err
	}
	r.pages = []file{{name: "LICENSE", mode: 0o644, content: license}, {name: "README.md", mode: 0o644, content: text}}
	for _, c := range completions {
		text, err := r.run(ctx, "completion", c.shell)
		if err != nil {
			return err
		}
		r.pages = append(r.pages, file{name: c.file, mode: 0o644, content: text})
	}
	dir := filepath.Join(r.scratch, "man")
	if _, err := r.run(ctx, "man", "--date="+r.src.at.Format(time.DateOnly), dir); err != nil {
		return err
	}
	pages, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return err
	}
	for _, page := range pages {
		r.pages = append(r.pages, file{name: "man/man1/" + page.Name(), mode: 0o644,
			from: filepath.Join(dir, page.Name())})
	}
	return nil
}

// run runs kelson and returns what it prints. Defaults of flags that depend on the home directory
// are those of an empty one.
func (r *release) run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, r.kelson, args...)
	cmd.Env = append(os.Environ(), "HOME=/home/user", "XDG_CACHE_HOME=", "XDG_CONFIG_HOME=", "KUBECONFIG=")
	output, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("kelson %s: %w\n%s", args[0], err, bytes.TrimSpace(failed.Stderr))
	}
	return output, err
}

// about has the values for the templates.
type about struct {
	Version string // v1.2.3
	Number  string // 1.2.3
	URL     string // URL of the folder with the release's files
	Modules string // URL of the folder with the modules
	// Sums are the checksums of the archives, by the names of their platforms, such as linux-amd64.
	Sums map[string]string
}

func (r *release) about() about {
	return about{Version: r.src.version, Number: r.src.version[1:], URL: r.url + "/" + r.src.version,
		Modules: r.modules}
}

func execute(text string, data any) ([]byte, error) {
	t, err := template.New("").Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, data)
	return b.Bytes(), err
}

// writeKrew writes the manifest of kubectl kelson.
func (r *release) writeKrew(ctx context.Context) error {
	manifest, err := r.run(ctx, append([]string{"kubectl-plugin", "krew-manifest", "--version=" + r.src.version,
		"--url=" + r.about().URL}, r.archives()...)...)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "kelson.yaml"), manifest, 0o644)
}

// formula is the Homebrew formula.
//
//go:embed formula.tmpl
var formula string

// writeFormula writes the Homebrew formula for the archives of macOS and Linux.
func (r *release) writeFormula(context.Context) error {
	data := r.about()
	data.Sums = map[string]string{}
	systems := map[string]bool{}
	for i, name := range r.archives() {
		p := r.built[i].platform
		if p.OS == "windows" {
			continue
		}
		sum, err := checksum(name)
		if err != nil {
			return err
		}
		data.Sums[p.OS+"-"+p.Architecture], systems[p.OS] = sum, true
	}
	if len(data.Sums) == 0 {
		return nil // only for Windows
	}
	text, err := execute(formula, struct {
		about
		MacOS, Linux bool
	}{data, systems["darwin"], systems["linux"]})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "kelson.rb"), text, 0o644)
}
