package project

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"kelson.dev/toolchain"
	"kelson.dev/toolchain/adopt"
	"kelson.dev/toolchain/gen/crd"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/scaffold"
)

// Generators are the flags of commands that run a project's generators.
type Generators struct {
	// Adopt makes projects that Kelson did not create use the arguments that they pass to
	// controller-gen.
	Adopt bool
	// Strict turns warnings, which projects that Kelson did not create get for some mistakes, into
	// errors.
	Strict bool
	// Skip runs no generators: the committed files are used.
	Skip bool
	// Outside permits generated files outside of the project's checkout.
	Outside bool
	// Own has the options from the command line, which replace adopted ones.
	Own toolchain.Options
}

// AddFlags adds the flags that all of the commands have.
func (g *Generators) AddFlags(f *pflag.FlagSet) {
	f.BoolVar(&g.Adopt, "adopt", true, "in projects that Kelson did not create, generate what their Makefile and scripts pass to controller-gen")
	f.BoolVar(&g.Strict, "strict", false, "treat markers that controller-gen ignores as errors, as in projects that Kelson created")
	f.BoolVar(&g.Outside, "write-outside", false,
		"write generated files also where the project's Makefile or symbolic links lead outside of its checkout")
}

// AddSkipFlag adds the flag of commands that generate before they do something else.
func (g *Generators) AddSkipFlag(f *pflag.FlagSet) {
	f.Var(inverted{&g.Skip}, "generate", "run the generators first; false: use the committed files")
	f.Lookup("generate").NoOptDefVal = "true"
}

// inverted is a flag that is true if the variable is false.
type inverted struct{ flag *bool }

func (i inverted) String() string {
	return strconv.FormatBool(i.flag == nil || !*i.flag)
}

func (i inverted) Set(s string) error {
	v, err := strconv.ParseBool(s)
	if err == nil {
		*i.flag = !v
	}
	return err
}

func (i inverted) Type() string { return "bool" }

// Generation lists the runs of the generators in a project.
type Generation struct {
	dir  string
	runs []toolchain.Options
	// Notes describe the adopted calls of controller-gen, and those that were not adopted, one per
	// line.
	Notes []string
}

// Empty reports whether Run does nothing.
func (p Generation) Empty() bool { return len(p.runs) == 0 }

// Plan determines the runs of the generators in the project in dir. Without names, all of the
// project's generators run.
//
// Generated files must be below the checkout of the project, unless Outside is set.
func (g Generators) Plan(dir string, names []string) (Generation, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Generation{}, err
	}
	plan, err := g.plan(dir, abs, names)
	if !g.Outside {
		within := checkout(abs)
		for i := range plan.runs {
			plan.runs[i].Within = within
		}
	}
	return plan, err
}

// checkout returns the Git checkout of a directory, or the directory itself.
func checkout(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, ".git")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}

func (g Generators) plan(dir, abs string, names []string) (Generation, error) {
	plan := Generation{dir: abs}
	opts := g.Own
	opts.Dir, opts.Generators = dir, names
	if len(opts.Paths) > 0 || len(opts.Settings) > 0 {
		foreign, _, err := foreign(abs)
		opts.Lenient = opts.Lenient || foreign && !g.Strict
		plan.runs = []toolchain.Options{opts}
		return plan, err
	}
	if root := enclosing(abs); root != "" {
		return Generation{}, fmt.Errorf("%s is part of the project in %s: generate there; paths=./… selects packages",
			dir, root)
	}
	foreign, found, err := foreign(abs)
	if err != nil {
		return Generation{}, err
	}
	opts.Lenient = opts.Lenient || foreign && !g.Strict
	if foreign && g.Adopt {
		if err := plan.adopt(g, found, names); err != nil {
			return Generation{}, err
		}
		if len(plan.runs) == 0 && len(found.Calls) == 0 && len(found.Unknown) > 0 {
			// Kelson's own options would write other files than the project's
			plan.Notes = append(plan.Notes, "warning: nothing is generated, because no call of controller-gen was adopted; --adopt=false uses Kelson's options")
			return plan, nil
		}
		if opts.Descriptions.Size == 0 {
			opts.Descriptions.Size = -1 // controller-gen does not shorten definitions
		}
	}
	if len(plan.runs) == 0 {
		opts.KeepEqual = foreign
		plan.runs = []toolchain.Options{opts}
	}
	return plan, nil
}

// enclosing returns the project of the same module of which dir is only a part, or "".
func enclosing(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, scaffold.ProjectFile)); err == nil {
			if at == dir {
				return ""
			}
			return at
		}
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil || at == filepath.Dir(at) {
			return ""
		}
	}
}

// Existing reports whether Kelson did not create the project in dir.
func Existing(dir string) (bool, error) {
	isForeign, _, err := foreign(dir)
	return isForeign, err
}

// foreign reports whether Kelson did not create a project: its PROJECT file has another layout, or
// it has none and runs controller-gen.
func foreign(dir string) (bool, adopt.Plan, error) {
	p, err := scaffold.ReadProject(dir)
	if err == nil && (p.IsServer() || slices.Equal(p.Layout, []string{scaffold.Layout})) {
		return false, adopt.Plan{}, nil
	}
	found, findErr := adopt.Find(dir)
	// a PROJECT file of another version belongs to another tool
	return !errors.Is(err, scaffold.ErrNoProject) || len(found.Calls)+len(found.Unknown) > 0, found, findErr
}

// adopt adds a run for each call of controller-gen.
func (p *Generation) adopt(g Generators, found adopt.Plan, names []string) error {
	for _, call := range found.Unknown {
		p.Notes = append(p.Notes, fmt.Sprintf(
			"warning: not adopted: %s: kelson cannot expand controller-gen %s; list the call in %s",
			call.Source, strings.Join(call.Args, " "), adopt.File))
	}
	var adopted []adopt.Call
	for _, call := range found.Calls {
		runs, err := call.Options()
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				p.Notes = append(p.Notes, "warning: not adopted: "+strings.TrimSpace(line))
			}
		}
		used := false
		for _, opts := range runs {
			opts.Generators = slices.DeleteFunc(opts.Generators, func(n string) bool {
				return len(names) > 0 && !slices.Contains(names, n)
			})
			if len(opts.Generators) == 0 {
				continue
			}
			g.override(&opts)
			opts.Omit, opts.Move = found.Removed, found.Moved
			p.runs, used = append(p.runs, opts), true
		}
		if used {
			adopted = append(adopted, call)
		}
	}
	if len(adopted) > 0 {
		p.Notes = append(p.Notes, adoptedNote(adopted))
	}
	return nil
}

// override applies the flags of the command line to adopted options.
func (g Generators) override(opts *toolchain.Options) {
	opts.Check, opts.Cache = g.Own.Check, g.Own.Cache
	opts.Lenient = !g.Strict
	opts.AllowFloats = opts.AllowFloats || g.Own.AllowFloats
	opts.EmbeddedObjectMeta = opts.EmbeddedObjectMeta || g.Own.EmbeddedObjectMeta
	if g.Own.Descriptions.PerField != 0 {
		opts.Descriptions.PerField = g.Own.Descriptions.PerField
	}
	if g.Own.Descriptions != (crd.Budget{}) && g.Own.Descriptions.Size != 0 {
		opts.Descriptions.Size = g.Own.Descriptions.Size
	}
}

// adoptedNote returns the line about adopted calls: the arguments of up to three calls, or only the
// positions of more calls.
func adoptedNote(calls []adopt.Call) string {
	var texts, places []string
	for _, c := range calls {
		places = append(places, c.Source)
		texts = append(texts, fmt.Sprintf("%s (%s)", strings.Join(c.Args, " "), c.Source))
	}
	if len(calls) <= 3 {
		return "adopted controller-gen " + strings.Join(texts, "; ")
	}
	return fmt.Sprintf("adopted %d calls of controller-gen: %s", len(calls), strings.Join(places, ", "))
}

// Print prints the notes, one per line.
func (p Generation) Print(out io.Writer) {
	for _, n := range p.Notes {
		fmt.Fprintln(out, n)
	}
}

// WithCache makes all runs keep parsed files in cache.
func (p Generation) WithCache(cache *loader.Cache) Generation {
	p.runs = slices.Clone(p.runs)
	for i := range p.runs {
		p.runs[i].Cache = cache
	}
	return p
}

// Run runs the generators. The paths in the result are relative to the project.
func (p Generation) Run(ctx context.Context) (toolchain.Result, error) {
	cache := &loader.Cache{}
	files := map[string]toolchain.File{}
	var all toolchain.Result
	var errs []error
	var nothing *toolchain.NothingError
	stale := false
	for _, opts := range p.runs {
		if opts.Cache == nil {
			opts.Cache = cache
		}
		result, err := toolchain.Generate(ctx, opts)
		if errors.Is(err, toolchain.ErrStale) {
			stale, err = true, nil
		}
		if errors.As(err, &nothing) {
			err = nil // another run may generate what the modules below have
		}
		if outside := new(toolchain.OutsideError); errors.As(err, &outside) {
			err = fmt.Errorf("%w; --write-outside permits it", err)
		}
		errs = append(errs, err)
		for _, w := range result.Warnings {
			if !slices.ContainsFunc(all.Warnings, func(have error) bool { return have.Error() == w.Error() }) {
				all.Warnings = append(all.Warnings, w)
			}
		}
		for _, f := range result.Files {
			name, relErr := p.relative(opts.Dir, f.Path)
			errs = append(errs, relErr)
			if f.Path = name; files[name].Changed {
				f.Changed = true
			}
			files[name] = f
		}
	}
	for _, f := range files {
		all.Files = append(all.Files, f)
	}
	sort.Slice(all.Files, func(i, j int) bool { return all.Files[i].Path < all.Files[j].Path })
	if err := errors.Join(errs...); err != nil {
		return all, err
	}
	if nothing != nil && len(files) == 0 {
		return all, nothing
	}
	if stale {
		return all, fmt.Errorf("%w: %v", toolchain.ErrStale, all.Changed())
	}
	return all, nil
}

// relative returns a path that is relative to a run's directory as one relative to the project.
func (p Generation) relative(dir, name string) (string, error) {
	abs, err := filepath.Abs(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(p.dir, abs)
	return filepath.ToSlash(rel), err
}
