// Package toolchain generates what follows from API types and controllers: deep copies, CustomResourceDefinitions, RBAC roles.
//
//	done, err := toolchain.Generate(ctx, toolchain.Options{Dir: "."})
//
// It reads the packages below Dir (see [loader]), their comments' markers (see [marker]), makes one model of the API (see [model]), and
// lets the emitters write:
//
//	zz_generated.deepcopy.go              beside the types       gen/deepcopy
//	config/crd/<group>_<plural>.yaml      one per kind           gen/crd
//	config/rbac/role.yaml                                        gen/rbac
//	config/webhook/manifests.yaml                                gen/webhook
//
// A project that has config/crd/bases, as kubebuilder lays it out, gets its definitions there. The text of hack/boilerplate.go.txt, if it
// exists, stands above generated Go files. Files are written only if their content changes; if anything is wrong nothing is written, and
// every error is reported, each with its place in the source.
//
// Generate calls no other program, except the go command where a package is not in the module cache.
package toolchain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"

	"kelson.dev/toolchain/gen/crd"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

// ErrStale says that Options.Check found files that are not as they would be generated. The Result names them.
var ErrStale = errors.New("generated files are not up to date")

// Options say what to generate.
type Options struct {
	// Dir is the project's directory, in a Go module; "" is the current one.
	Dir string
	// Generators are the names of those to run. None: those that are Default, and what packages ask for with +kelson:generate.
	Generators []string
	// Check writes nothing, and is ErrStale if something would be written.
	Check bool
	// Lenient makes markers that are unknown, misplaced or malformed warnings instead of errors, and passes them over.
	Lenient bool
	// AllowFloats permits float fields in API types.
	AllowFloats bool
	// EmbeddedObjectMeta gives metadata inside of objects a schema, so that servers keep it.
	EmbeddedObjectMeta bool
	// Descriptions bounds the documentation in CustomResourceDefinitions.
	Descriptions crd.Budget
	// Cache, if given, keeps parsed files from one call to the next; watchers do so.
	Cache *loader.Cache
}

// Result says what Generate did.
type Result struct {
	// Files are all generated files, by path.
	Files []File
	// Warnings are what was passed over, and what a reader should know.
	Warnings []error
}

// File is a generated file.
type File struct {
	Path    string // relative to Options.Dir, with slashes
	Content []byte
	Changed bool // it was written or removed, or, with Options.Check, would have been
	Removed bool // the definition of a kind that is no longer there
}

// Changed are the paths of the files that were (or would have been) written or removed.
func (r Result) Changed() []string {
	var paths []string
	for _, f := range r.Files {
		if f.Changed {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// Generate writes all generated files of the project. The error joins everything that is wrong: *[loader.Error] with their places for the
// source, others for files. Calls for one Dir must not overlap.
func Generate(ctx context.Context, opts Options) (Result, error) {
	wanted, err := selected(opts.Generators)
	if err != nil {
		return Result{}, err
	}
	ws, err := loader.Open(ctx, loader.Config{Dir: opts.Dir, Cache: opts.Cache})
	if err != nil {
		return Result{}, err
	}
	r := &run{opts: opts, ws: ws, dir: ws.Dir(), out: output{dir: ws.Dir(), content: map[string][]byte{}}}
	r.api, err = model.Build(ws, marker.Standard())
	r.fail(err)
	if opts.Lenient {
		r.warnings = append(r.warnings, r.api.MarkerErrors...)
	} else {
		r.fail(r.api.MarkerErrors...)
	}
	header, err := os.ReadFile(filepath.Join(ws.Dir(), "hack", "boilerplate.go.txt"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.fail(err)
	}
	r.header = string(header)
	for _, g := range wanted {
		r.only = nil
		if len(opts.Generators) == 0 && !g.Default {
			if r.only = r.askedFor(g.Name); len(r.only) == 0 {
				continue
			}
		}
		g.emit(r)
	}
	if len(opts.Generators) == 0 {
		r.checkAsked()
	}
	if err := report(r.errs); err != nil {
		return Result{Warnings: r.warnings}, err
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	res, err := r.out.write(opts.Check)
	res.Warnings = r.warnings
	return res, err
}

// definitionDir is where the project keeps its CustomResourceDefinitions: config/crd/bases if that is there, or if the kustomization beside
// it says that they will be.
func definitionDir(dir string) string {
	crds := filepath.Join(dir, "config", "crd")
	bases := filepath.Join(crds, "bases")
	if st, err := os.Stat(bases); err == nil && st.IsDir() {
		return bases
	}
	if kustomization, err := os.ReadFile(filepath.Join(crds, "kustomization.yaml")); err == nil && bytes.Contains(kustomization, []byte("- bases/")) {
		return bases
	}
	return crds
}

// output gathers files before any is written.
type output struct {
	dir     string
	content map[string][]byte
	removed []string
}

// add takes a file's content; nil is no file.
func (o *output) add(name string, content []byte) error {
	if content == nil {
		return nil
	}
	rel, err := filepath.Rel(o.dir, name)
	if err != nil {
		return err
	}
	rel = filepath.ToSlash(rel)
	if _, twice := o.content[rel]; twice {
		return fmt.Errorf("%s would be generated twice; give one of the kinds another plural with +kubebuilder:resource:path", rel)
	}
	o.content[rel] = content
	return nil
}

// remove takes a file away, unless it is one that is written.
func (o *output) remove(name string) (bool, error) {
	rel, err := filepath.Rel(o.dir, name)
	if err != nil {
		return false, err
	}
	if _, written := o.content[filepath.ToSlash(rel)]; written {
		return false, nil
	}
	o.removed = append(o.removed, filepath.ToSlash(rel))
	return true, nil
}

// write brings the disk up to date, each file at once, or says what it would write.
func (o *output) write(check bool) (Result, error) {
	var res Result
	var errs []error
	for rel, content := range o.content {
		name := filepath.Join(o.dir, filepath.FromSlash(rel))
		have, err := os.ReadFile(name)
		f := File{Path: rel, Content: content, Changed: err != nil || !bytes.Equal(have, content)}
		if f.Changed && !check {
			errs = append(errs, writeFile(name, content))
		}
		res.Files = append(res.Files, f)
	}
	for _, rel := range o.removed {
		if !check {
			errs = append(errs, os.Remove(filepath.Join(o.dir, filepath.FromSlash(rel))))
		}
		res.Files = append(res.Files, File{Path: rel, Changed: true, Removed: true})
	}
	sort.Slice(res.Files, func(i, j int) bool { return res.Files[i].Path < res.Files[j].Path })
	if check && len(res.Changed()) > 0 {
		errs = append(errs, fmt.Errorf("%w: %v", ErrStale, res.Changed()))
	}
	return res, errors.Join(errs...)
}

// writeFile replaces a file in one step, so that a reader (a running compiler) never sees half of it.
func writeFile(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("write generated file: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return fmt.Errorf("write generated file: %w", err)
	}
	_, err = tmp.Write(content)
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		os.Remove(tmp.Name())
		return fmt.Errorf("write generated file: %w", err)
	}
	return nil
}

// report joins errors, each message once, in the order of their places.
func report(errs []error) error {
	var flat []error
	seen := map[string]bool{}
	var visit func(error)
	visit = func(err error) {
		if err == nil {
			return
		}
		if list, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range list.Unwrap() {
				visit(e)
			}
			return
		}
		if !seen[err.Error()] {
			seen[err.Error()] = true
			flat = append(flat, err)
		}
	}
	visit(errors.Join(errs...))
	sort.SliceStable(flat, func(i, j int) bool {
		var a, b *loader.Error
		if !errors.As(flat[i], &a) || !errors.As(flat[j], &b) {
			return false
		}
		if a.Pos.Filename != b.Pos.Filename {
			return a.Pos.Filename < b.Pos.Filename
		}
		return a.Pos.Offset < b.Pos.Offset
	})
	return errors.Join(flat...)
}
