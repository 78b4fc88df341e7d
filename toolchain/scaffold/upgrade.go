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

// Upgraded is the result of Upgrade.
type Upgraded struct {
	From, To  int // versions of the template
	Changes   []Change
	Conflicts []string // files with conflict markers, as git writes them
}

// Upgrade upgrades a project to the current version of the template. It merges every file three
// ways: the old template, the new template and the user's file. It does not restore files that the
// user has deleted. If the project has its own go.mod, Upgrade updates it to the requirements of
// the source.
//
// Without force the project must be in git without uncommitted changes, so that the upgrade can be
// undone.
func Upgrade(dir string, source Source, force bool) (*Upgraded, error) {
	return upgrade(dir, source, force, templateVersion, templateOf)
}

func upgrade(dir string, source Source, force bool, to int, templates func(int) (blueprint, error)) (*Upgraded, error) {
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
		return nil, fmt.Errorf("a newer kelson made this project: its template has version %d, this kelson has version %d", done.From, to)
	}
	m, err := readModules(source, w.project.IsServer())
	if err != nil {
		return nil, err
	}
	mod, err := w.stage.read("go.mod")
	if err != nil {
		return nil, err
	}
	if w.enclosingMod != nil {
		mod = w.enclosingMod
	}
	before := w.project.values()
	before.Checkout = checkoutOf(mod)
	if f, err := modfile.Parse("go.mod", mod, nil); err == nil && f.Go != nil {
		before.GoVersion = goMinor(f.Go.Version)
	}
	now := before
	if w.enclosingMod == nil {
		now.Checkout, now.GoVersion = source.Checkout, goMinor(m.goVersion())
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
	if w.enclosingMod == nil { // otherwise go.mod also belongs to other code
		if err := w.require(m); err != nil {
			return nil, err
		}
	}
	w.project.setTemplate(to)
	done.Changes, err = w.commit()
	return done, err
}

// clean returns an error unless the folder is in git without uncommitted changes.
func clean(dir string) error {
	status := exec.Command("git", "status", "--porcelain", "--", ".")
	status.Dir = dir
	out, err := status.Output()
	if err != nil {
		return errors.New("the project is not in git: commit it first, so that the upgrade can be undone, or use --force")
	}
	if n := bytes.Count(out, []byte("\n")); n > 0 {
		first, _, _ := strings.Cut(string(out), "\n")
		return fmt.Errorf("%d files are not committed, for example %s: commit them first, or use --force", n,
			strings.TrimSpace(first[min(3, len(first)):]))
	}
	return nil
}

// replayed returns the files that a version of the template generates for the project's PROJECT
// file.
func (w *work) replayed(version int, v values, templates func(int) (blueprint, error)) (map[string][]byte, error) {
	template, err := templates(version)
	if err != nil {
		return nil, err
	}
	p := w.project
	replay := &work{stage: newStage(""), template: template,
		project: &Project{Domain: p.Domain, Name: p.Name, Repo: p.Repo, Layout: p.Layout}}
	if err := replay.add(p.base(), v); err != nil {
		return nil, err
	}
	for i := range p.Resources {
		r := &p.Resources[i]
		replay.project.MultiGroup = p.inGroup(r)
		if !r.API && !r.Controller {
			continue
		}
		err := replay.kinds().createAPI(API{Group: r.Group, Version: r.Version, Kind: r.Kind, Plural: r.Plural,
			ClusterScoped: r.ClusterScoped,
			Resource:      r.API, Controller: r.Controller, path: r.Path})
		if err != nil {
			return nil, fmt.Errorf("replay create api for %s: %w", r, err)
		}
	}
	for i := range p.Resources {
		r := &p.Resources[i]
		replay.project.MultiGroup = p.inGroup(r)
		if r.Webhooks.None() {
			continue
		}
		err := replay.webhooks().createWebhook(Webhook{Group: r.Group, Version: r.Version, Kind: r.Kind,
			Defaulting: r.Webhooks.Defaulting,
			Validation: r.Webhooks.Validation, Conversion: r.Webhooks.Conversion, Spokes: r.Webhooks.Spokes})
		if err != nil {
			return nil, fmt.Errorf("replay create webhook for %s: %w", r, err)
		}
	}
	return replay.stage.snapshot(), nil
}

// generatedFiles are written by generators, so they are not merged.
var generatedFiles = []string{"config/rbac/role.yaml", "config/webhook/manifests.yaml"}

// merge applies the changes from base to theirs to the project.
func (w *work) merge(base, theirs map[string][]byte) (conflicts []string, err error) {
	names := map[string]bool{}
	for name := range base {
		names[name] = true
	}
	for name := range theirs {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, inBase := base[name]
		new, isThere := theirs[name]
		if inBase == isThere && bytes.Equal(was, new) || slices.Contains(generatedFiles, name) {
			continue
		}
		ours, err := w.stage.read(name)
		if err != nil {
			return nil, err
		}
		switch {
		case ours == nil && inBase: // deleted by the user
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
