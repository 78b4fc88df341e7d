// Package toolchain generates code and manifests from API types and controllers.
//
//	done, err := toolchain.Generate(ctx, toolchain.Options{Dir: "."})
//
// It reads the packages below Dir (see [loader]) and the markers in their comments (see [marker]),
// builds one model of the API (see [model]), and runs the generators. These run by default:
//
//	object              zz_generated.deepcopy.go            next to the types    gen/deepcopy
//	crd                 config/crd/GROUP_PLURAL.yaml        one per kind         gen/crd
//	rbac                config/rbac/role.yaml                                    gen/rbac
//	webhook             config/webhook/manifests.yaml                            gen/webhook
//
// These run for packages that request them with +kelson:generate, or if Options.Generators names
// them:
//
//	register            zz_generated.register.go            next to the types      gen/register
//	defaults            zz_generated.defaults.go            next to the types      gen/defaults
//	conversion          zz_generated.conversion.go, _test   next to the types      gen/conversion
//	protobuf            zz_generated.protobuf.go, .lock         next to the types      gen/protobuf
//	                    generated.proto
//	validation          zz_generated.validation.go          next to the types      gen/validation
//	lifecycle           zz_generated.prerelease-lifecycle.go  next to the types    gen/lifecycle
//	applyconfiguration  OUTPUT/applyconfiguration           for server-side apply  gen/applyconfiguration
//	client              OUTPUT/clientset                    clients and fakes      gen/client
//	lister              OUTPUT/listers                                             gen/lister
//	openapi             OUTPUT/openapi                      definitions            gen/openapi
//	                    zz_generated.model_name.go          next to the types
//	docs                docs/api/GROUP.VERSION.md           one per version        gen/docs
//	informer            OUTPUT/informers                    a shared factory       gen/informer
//
// OUTPUT is pkg/generated unless +kelson:output names another directory. [Generators] returns the
// same list.
//
// If the project has config/crd/bases, as in kubebuilder's layout, the CustomResourceDefinitions
// are written there. Generated Go files begin with the text of hack/boilerplate.go.txt, if that
// file exists. Generate writes only files whose content changes. If there is any error it writes
// nothing and reports all errors, each with its position in the source.
//
// Generate runs no other program, except the go command for packages that are not in the module
// cache.
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

// ErrStale is returned with Options.Check if generated files are out of date. The Result lists
// them.
var ErrStale = errors.New("generated files are not up to date")

// Options configure Generate.
type Options struct {
	// Dir is the project's directory, which must be in a Go module; "" is the current directory.
	Dir string
	// Generators names the generators to run. If it is empty, the Default generators run, and those
	// that packages request with +kelson:generate.
	Generators []string
	// Check makes Generate write nothing, and return ErrStale if it would have written something.
	Check bool
	// Lenient makes unknown, misplaced and malformed markers warnings instead of errors. They have
	// no effect.
	Lenient bool
	// AllowFloats permits float fields in API types.
	AllowFloats bool
	// EmbeddedObjectMeta generates a schema for metadata inside objects, so that servers do not
	// prune it.
	EmbeddedObjectMeta bool
	// Descriptions limits the length of descriptions in CustomResourceDefinitions.
	Descriptions crd.Budget
	// Cache, if not nil, keeps parsed files between calls. It makes repeated calls faster.
	Cache *loader.Cache
}

// Result is what Generate did.
type Result struct {
	// Files lists all generated files, sorted by path.
	Files []File
	// Warnings lists problems that did not stop the generators.
	Warnings []error
}

// File is a generated file.
type File struct {
	Path    string // relative to Options.Dir, with slashes
	Content []byte
	Changed bool // the file was written or removed, or would have been without Options.Check
	Removed bool // the file was generated from something that no longer exists
}

// Changed returns the paths of the files that were, or would have been, written or removed.
func (r Result) Changed() []string {
	var paths []string
	for _, f := range r.Files {
		if f.Changed {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// Generate writes the generated files of the project. The error joins all errors: a
// *[loader.Error], which has a position, for each error in the source, and others for files. Calls
// for one Dir must not overlap.
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

// definitionDir returns the directory of the project's CustomResourceDefinitions: config/crd/bases
// if it exists or config/crd/kustomization.yaml lists files in it, else config/crd.
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

// output collects files, so that none is written if there is an error.
type output struct {
	dir     string
	content map[string][]byte
	removed []string
}

// add records a file to write. It ignores nil content.
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
		return fmt.Errorf("%s would be generated twice; set another plural for one of the kinds with +kubebuilder:resource:path", rel)
	}
	o.content[rel] = content
	return nil
}

// remove records a file to remove and returns true, unless the file is to be written.
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

// write writes and removes the recorded files. With check it only reports what it would do.
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

// writeFile replaces a file atomically, so that a running compiler never reads a partial file.
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

// report joins errors in the order of their positions, without duplicate messages.
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
