package scaffold

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
)

// InitOptions describes a new project.
type InitOptions struct {
	Dir    string // its folder, which Init creates if it does not exist
	Domain string // the end of the names of its API groups
	Repo   string // path of its Go module; the default is that of an existing go.mod
	Name   string // the folder's name by default
	Source Source // the source of Kelson's modules
	Server bool   // the project is a custom API server, not an operator
	// License and Owner are written to hack/boilerplate.go.txt, with which generated code begins.
	// The licenses are the same as kubebuilder's: apache2, copyright (only a line with the owner),
	// none.
	License, Owner string
}

// allowedBeforeInit lists files that a folder may contain before Init.
var allowedBeforeInit = regexp.MustCompile(`^(\..*|go\.mod|go\.sum|LICENSE.*|README.*|[A-Z]+\.md)$`)

// Init creates a project. It does not change a folder that already has the same project.
func Init(opts InitOptions) ([]Change, error) {
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return nil, err
	}
	if err := checkDomain(opts.Domain); err != nil {
		return nil, err
	}
	if opts.Name == "" {
		opts.Name = strings.ToLower(filepath.Base(dir))
	}
	if err := checkProjectName(opts.Name, opts.Server); err != nil {
		return nil, err
	}
	st := newStage(dir)
	mod, err := st.read("go.mod")
	if err != nil {
		return nil, err
	}
	if module := modfile.ModulePath(mod); mod != nil && opts.Repo == "" {
		opts.Repo = module
	} else if mod != nil && opts.Repo != module {
		return nil, fmt.Errorf("--repo is %s, but the module in go.mod is %s", opts.Repo, module)
	}
	if opts.Repo == "" {
		return nil, errors.New("--repo is required without a go.mod: the path of the project's Go module, for example example.com/welcome")
	}
	if err := checkRepo(opts.Repo); err != nil {
		return nil, err
	}
	p := &Project{Domain: opts.Domain, Name: opts.Name, Repo: opts.Repo, Layout: []string{Layout}}
	if opts.Server {
		p.Layout = []string{serverLayout}
	}
	switch old, err := ReadProject(dir); {
	case err == nil:
		if old.Domain == p.Domain && old.Name == p.Name && old.Repo == p.Repo && slices.Equal(old.Layout, p.Layout) {
			return nil, nil
		}
		return nil, fmt.Errorf("%s already is a project, with domain %s, repo %s and layout %s", opts.Dir, old.Domain,
			old.Repo, strings.Join(old.Layout, ","))
	case !errors.Is(err, ErrNoProject):
		return nil, err
	}
	if err := checkEmpty(dir); err != nil {
		return nil, err
	}
	w := &work{stage: st, template: currentTemplate(), project: p}
	header, err := boilerplate(opts.License, opts.Owner, time.Now().Year())
	if err != nil {
		return nil, err
	}
	if header != "" && !st.exists(boilerplateName) {
		st.write(boilerplateName, []byte(header))
	}
	if err := w.initialise(opts.Source, true); err != nil {
		return nil, err
	}
	return w.commit()
}

func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !allowedBeforeInit.MatchString(e.Name()) {
			return fmt.Errorf("%s is not empty: it contains %s", dir, e.Name())
		}
	}
	return nil
}

// goMinor returns a Go version without its patch release.
func goMinor(version string) string {
	parts := strings.SplitN(version, ".", 3)
	return strings.Join(parts[:min(2, len(parts))], ".")
}
