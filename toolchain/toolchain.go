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
//	schema              zz_generated.schema.go              next to the types      gen/schema
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
	"context"
	"errors"

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
	// Paths selects packages as in the go command and controller-gen: ./api/... or
	// example.com/project/api/v1. Empty means all packages below Dir. With Paths, Generate removes
	// no definitions, because it does not see all kinds.
	Paths []string
	// Generators names the generators to run. If it is empty, the Default generators run, and those
	// that packages request with +kelson:generate.
	Generators []string
	// Check makes Generate write nothing, and return ErrStale if it would have written something.
	Check bool
	// Lenient turns errors that controller-gen ignores into warnings: unknown, misplaced and
	// malformed markers, which have no effect, and kinds that a server would reject.
	Lenient bool
	// Settings configure single generators, by name. The zero value means Kelson's defaults.
	Settings map[string]Settings
	// KeepEqual leaves files as they are if they have the same meaning as the generated ones: Go
	// files with the same functions, and YAML files with the same objects.
	KeepEqual bool
	// Omit lists absolute paths of files that are not written.
	Omit []string
	// Move lists files that are written elsewhere. The first that matches a file applies.
	Move []Move
	// Within, if not empty, is the directory outside of which nothing may be written or removed,
	// also not through symbolic links. Files outside are an [OutsideError].
	Within string
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

// Move makes Generate write files elsewhere. From is an absolute path or pattern as of
// [filepath.Match]. To is an absolute path; * as its last element stands for the name of the file.
type Move struct{ From, To string }

// Settings configure a generator as controller-gen's options of the same names do.
type Settings struct {
	// Output is the directory of the generated manifests, relative to Options.Dir. It does not
	// apply to generated code, which is next to the types.
	Output string
	// HeaderFile is a file with the text at the beginning of generated files, relative to
	// Options.Dir. The default is hack/boilerplate.go.txt, if it exists, for code, and none for
	// manifests. "-" means no header.
	HeaderFile string
	// Year replaces YEAR in the header.
	Year string
	// FileName is the name of the file of roles; the default is role.yaml.
	FileName string
	// RoleName is the name of roles whose markers have none; the default is manager-role.
	RoleName string
}

// Result describes the work of Generate.
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
	ws, err := loader.Open(ctx, loader.Config{Dir: opts.Dir, Paths: opts.Paths, Cache: opts.Cache})
	if err != nil {
		return Result{}, err
	}
	r := &run{opts: opts, ws: ws, dir: ws.Dir(), out: output{ws: ws, dir: ws.Dir(), keepEqual: opts.KeepEqual,
		omit: opts.Omit, move: opts.Move, within: opts.Within, content: map[string][]byte{},
		packages: map[string]*loader.Package{}}}
	r.api, err = model.Build(ws, marker.Standard())
	r.mistake(err)
	r.mistake(r.api.MarkerErrors...)
	r.fail(r.api.Unresolved...)
	for _, g := range wanted {
		r.header = r.goHeader(g.Name)
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
	if len(r.out.content)+len(r.out.removed) == 0 {
		if err := elsewhere(ctx, ws); err != nil {
			return Result{Warnings: r.warnings}, err
		}
	}
	res, err := r.out.write(opts.Check)
	res.Warnings = r.warnings
	return res, err
}
