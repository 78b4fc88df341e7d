package explore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"

	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/cmd/kelson/internal/release"
	"kelson.dev/toolchain/scaffold"
)

// writeProgram writes the test, which replays a history, and the changed main to the folder temp.
// It returns the file that describes the overlay.
func writeProgram(p *project.Project, temp string) (overlay string, err error) {
	files, err := filepath.Glob(filepath.Join(p.Main, "*.go"))
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	var all rewritten
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		changed, err := rewrite(name, source)
		if err != nil {
			return "", err
		}
		all.main, all.manage, all.pflag = all.main || changed.main, all.manage || changed.manage, all.pflag || changed.pflag
		if changed.source != nil {
			to := filepath.Join(temp, filepath.Base(name))
			if err := os.WriteFile(to, changed.source, 0o600); err != nil {
				return "", err
			}
			replace[name] = to
		}
	}
	program := partsProgram
	switch {
	case all.manage:
		program = managerProgram
	case !all.main:
		return "", fmt.Errorf("no file of %s calls operator.Main of %s or creates a manager of %s: call one of them, or write a test with explore.Run", p.Main, library, runtime)
	}
	var source bytes.Buffer
	if err := program.Execute(&source, map[string]any{"Dir": p.Dir, "Pflag": all.pflag}); err != nil {
		return "", err
	}
	test := filepath.Join(temp, "explore_test.go")
	if err := os.WriteFile(test, source.Bytes(), 0o600); err != nil {
		return "", err
	}
	replace[filepath.Join(p.Main, "zz_kelson_explore_test.go")] = test
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(temp, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o600)
}

// workspace returns the environment in which the go command finds kelson.dev/lab/explore from the
// project. The project does not require that package, because it has many more dependencies than
// the operator library.
func workspace(ctx context.Context, p *project.Project, temp string) ([]string, error) {
	run := func(env []string, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir, cmd.Env = p.Dir, append(os.Environ(), env...)
		output, err := cmd.Output()
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("go %s: %w\n%s", args[0], err, failed.Stderr)
		}
		return strings.TrimSpace(string(output)), err
	}
	if dir, err := run(nil, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", "kelson.dev"); err == nil && dir != "" {
		return nil, nil
	}
	mod, err := run([]string{"GOWORK=off"}, "env", "GOMOD")
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(mod)
	if err != nil {
		return nil, err
	}
	source, err := sourceOf(mod, data)
	if err != nil {
		return nil, err
	}
	found, err := source.Find("kelson.dev", "kelson.dev/apiserver", library)
	if err != nil {
		return nil, err
	}
	work := filepath.Join(temp, "go.work")
	env := []string{"GOWORK=" + work}
	args := []string{"work", "init", filepath.Dir(mod)}
	for _, module := range found {
		args = append(args, module.Dir)
	}
	if _, err := run(env, args...); err != nil {
		return nil, err
	}
	sums, err := os.ReadFile(filepath.Join(found[0].Dir, "go.work.sum"))
	if err != nil {
		return nil, err
	}
	return env, os.WriteFile(filepath.Join(temp, "go.work.sum"), sums, 0o600)
}

// sourceOf returns the folder of Kelson's source: the one that a replace directive of a go.mod
// names, or the one that this program was built from.
func sourceOf(name string, mod []byte) (scaffold.Source, error) {
	f, err := modfile.Parse(name, mod, nil)
	if err != nil {
		return scaffold.Source{}, err
	}
	for _, r := range f.Replace {
		if r.Old.Path == library && r.New.Version == "" {
			dir := r.New.Path
			if !filepath.IsAbs(dir) {
				dir = filepath.Join(filepath.Dir(name), dir)
			}
			return scaffold.SourceOf(filepath.Dir(dir), "")
		}
	}
	return scaffold.SourceOf("", release.Published())
}
