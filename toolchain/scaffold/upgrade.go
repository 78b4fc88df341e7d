package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"kelson.dev/toolchain/scaffold/merge"
)

// Upgraded is what Upgrade did.
type Upgraded struct {
	From, To  int // versions of the template
	Changes   []Change
	Conflicts []string // files in which both sides changed the same; they have marks as git makes them
}

// Upgrade moves a project to the present version of the template: every file becomes what a three-way merge makes of the old template, the
// new one and what the user made of it. Files that the user has deleted stay deleted. go.mod is brought to what Kelson in checkout needs, if it
// is the project's own.
// Without force the project must be in git, with nothing uncommitted, so that it can be undone.
func Upgrade(dir, checkout string, force bool) (*Upgraded, error) {
	return upgrade(dir, checkout, force, TemplateVersion, templateOf)
}

func upgrade(dir, checkout string, force bool, to int, templates func(int) (blueprint, error)) (*Upgraded, error) {
	w, err := open(dir)
	if err != nil {
		return nil, err
	}
	if !force {
		if err := clean(w.stage.dir); err != nil {
			return nil, err
		}
	}
	done := &Upgraded{From: w.project.template(), To: to}
	if done.From > to {
		return nil, fmt.Errorf("the project was made by a newer kelson: its template has version %d, this one has %d", done.From, to)
	}
	m, err := readModules(checkout)
	if err != nil {
		return nil, err
	}
	mod, err := w.stage.read("go.mod")
	if err != nil {
		return nil, err
	}
	if w.around != nil {
		mod = w.around
	}
	before := w.project.values()
	before.Checkout = checkoutOf(mod)
	if f, err := modfile.Parse("go.mod", mod, nil); err == nil && f.Go != nil {
		before.GoVersion = goMinor(f.Go.Version)
	}
	now := before
	if w.around == nil {
		now.Checkout, now.GoVersion = checkout, goMinor(m.goVersion())
	}

	base, err := w.replayed(done.From, before, templates)
	if err != nil {
		return nil, err
	}
	theirs, err := w.replayed(to, now, templates)
	if err != nil {
		return nil, err
	}
	if done.Conflicts, err = w.merge(base, theirs); err != nil {
		return nil, err
	}
	if w.around == nil { // otherwise go.mod is not the project's alone
		if err := w.require(m); err != nil {
			return nil, err
		}
	}
	w.project.setTemplate(to)
	done.Changes, err = w.commit()
	return done, err
}

// clean says what keeps a folder from being undone by git.
func clean(dir string) error {
	status := exec.Command("git", "status", "--porcelain", "--", ".")
	status.Dir = dir
	out, err := status.Output()
	if err != nil {
		return errors.New("the project is not in git: commit it there first, so that the upgrade can be undone (or use --force)")
	}
	if n := bytes.Count(out, []byte("\n")); n > 0 {
		first, _, _ := strings.Cut(string(out), "\n")
		return fmt.Errorf("%d files are not committed, such as %s: commit them first (or use --force)", n, strings.TrimSpace(first[min(3, len(first)):]))
	}
	return nil
}

// replayed are the files that a version of the template gives for what PROJECT says.
func (w *work) replayed(version int, v values, templates func(int) (blueprint, error)) (map[string][]byte, error) {
	template, err := templates(version)
	if err != nil {
		return nil, err
	}
	p := w.project
	again := &work{stage: newStage(""), template: template, project: &Project{Domain: p.Domain, Name: p.Name, Repo: p.Repo, Layout: p.Layout}}
	if err := again.add("project", v); err != nil {
		return nil, err
	}
	for i := range p.Resources {
		r := &p.Resources[i]
		again.project.MultiGroup = p.inGroup(r)
		if !r.API && !r.Controller {
			continue
		}
		err := again.createAPI(API{Group: r.Group, Version: r.Version, Kind: r.Kind, Plural: r.Plural, ClusterScoped: r.ClusterScoped,
			Resource: r.API, Controller: r.Controller})
		if err != nil {
			return nil, fmt.Errorf("replay create api for %s: %w", r, err)
		}
	}
	for i := range p.Resources {
		r := &p.Resources[i]
		again.project.MultiGroup = p.inGroup(r)
		if r.Webhooks.None() {
			continue
		}
		err := again.createWebhook(Webhook{Group: r.Group, Version: r.Version, Kind: r.Kind, Defaulting: r.Webhooks.Defaulting,
			Validation: r.Webhooks.Validation, Conversion: r.Webhooks.Conversion, Spokes: r.Webhooks.Spokes})
		if err != nil {
			return nil, fmt.Errorf("replay create webhook for %s: %w", r, err)
		}
	}
	return again.stage.snapshot(), nil
}

// generatedFiles follow from other files, and are not merged.
var generatedFiles = []string{"config/rbac/role.yaml", "config/webhook/manifests.yaml"}

// merge brings what changed from base to theirs into the project.
func (w *work) merge(base, theirs map[string][]byte) (conflicts []string, err error) {
	names := map[string]bool{}
	for name := range base {
		names[name] = true
	}
	for name := range theirs {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, wasThere := base[name]
		new, isThere := theirs[name]
		if wasThere == isThere && bytes.Equal(was, new) || slices.Contains(generatedFiles, name) {
			continue
		}
		ours, err := w.stage.read(name)
		if err != nil {
			return nil, err
		}
		switch {
		case ours == nil && wasThere: // the user has deleted it
		case ours == nil:
			w.stage.write(name, new)
		case !isThere:
			if bytes.Equal(ours, was) {
				w.stage.remove(name)
			}
		default:
			merged, n := merge.Merge(was, ours, new)
			w.stage.write(name, merged)
			if n > 0 {
				conflicts = append(conflicts, name)
			}
		}
	}
	return conflicts, nil
}
