package toolchain

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"kelson.dev/toolchain/gen/applyconfiguration"
	"kelson.dev/toolchain/gen/client"
	"kelson.dev/toolchain/gen/conversion"
	"kelson.dev/toolchain/gen/defaults"
	"kelson.dev/toolchain/gen/docs"
	"kelson.dev/toolchain/gen/informer"
	"kelson.dev/toolchain/gen/lister"
	"kelson.dev/toolchain/gen/openapi"
	"kelson.dev/toolchain/gen/protobuf"
	"kelson.dev/toolchain/gen/register"
	"kelson.dev/toolchain/gen/schema"
	"kelson.dev/toolchain/gen/validation"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/model"
)

// defaultOutput is the directory of generated client packages, relative to the project's directory.
const defaultOutput = "pkg/generated"

// registered reports whether the registration of a package is generated, in this run or earlier,
// perhaps by register-gen. The loader does not read generated files.
func (r *run) registered(p *model.Package) bool {
	if !slices.Contains(p.Asks(), "register") && !slices.Contains(r.opts.Generators, "register") {
		src, err := os.ReadFile(filepath.Join(p.Dir, register.FileName))
		return err == nil && bytes.Contains(src, []byte("localSchemeBuilder"))
	}
	return p.HasAPI && !p.Declares("AddToScheme") && len(p.Objects()) > 0
}

func (r *run) defaulting() {
	for _, p := range r.packages() {
		src, err := defaults.Generate(defaults.Config{API: r.api, Package: p, Header: r.header,
			Registered: r.registered(p)})
		r.file(p, defaults.FileName, src, err)
	}
}

func (r *run) conversions() {
	for _, p := range r.packages() {
		files, err := conversion.Generate(conversion.Config{API: r.api, Workspace: r.ws, Package: p, Header: r.header,
			Registered: r.registered(p)})
		r.file(p, conversion.FileName, files.Source, err)
		r.file(p, conversion.TestFileName, files.Test, nil)
	}
}

func (r *run) protobufs() {
	for _, p := range r.packages() {
		if !p.HasAPI {
			continue
		}
		lock, err := os.ReadFile(filepath.Join(p.Dir, protobuf.LockFileName))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.fail(err)
			continue
		}
		files, err := protobuf.Generate(protobuf.Config{API: r.api, Package: p, Header: r.header, Lock: lock,
			Generated: func(other *model.Package) bool {
				return slices.Contains(r.packages(), other)
			}})
		r.file(p, protobuf.FileName, files.Source, err)
		r.file(p, protobuf.SchemaFileName, files.Schema, err)
		r.fail(r.out.add(filepath.Join(p.Dir, protobuf.LockFileName), files.Lock))
	}
}

func (r *run) validations() {
	generated := func(p *loader.Package) bool {
		return slices.ContainsFunc(r.packages(), func(other *model.Package) bool { return other.Package == p })
	}
	for _, p := range r.packages() {
		src, err := validation.Generate(validation.Config{API: r.api, Package: p, Header: r.header,
			Generated: generated})
		r.file(p, validation.FileName, src, err)
	}
}

func (r *run) schemas() {
	for _, p := range r.packages() {
		src, err := schema.Generate(r.api, p, r.header)
		r.file(p, schema.FileName, src, err)
		if p.Served() {
			r.warnings = append(r.warnings, schema.Ignored(r.api, p)...)
		}
	}
}

// outputs returns the packages of the current generator by output directory.
func (r *run) outputs() map[string][]*model.Package {
	byOutput := map[string][]*model.Package{}
	for _, p := range r.packages() {
		if !p.HasAPI {
			continue
		}
		out := defaultOutput
		if m := p.Markers.Get("kelson:output"); m != nil {
			out = m.Text()
			if !filepath.IsLocal(filepath.FromSlash(out)) {
				r.fail(loader.Errorf(m.Pos, "+kelson:output: %q is not a directory inside the project", out))
				continue
			}
		}
		byOutput[out] = append(byOutput[out], p)
	}
	return byOutput
}

// each calls emit for every output directory that has kinds with clients.
func (r *run) each(emit func([]*model.ClientGroup, client.Output) ([]client.File, error)) {
	for dir, pkgs := range r.outputs() {
		groups, errs := r.api.Clients(pkgs)
		r.fail(errs...)
		if len(groups) == 0 {
			continue
		}
		out, err := r.output(dir)
		if err != nil {
			r.fail(err)
			continue
		}
		files, err := emit(groups, out)
		r.fail(err)
		r.add(files)
	}
}

func (r *run) output(dir string) (client.Output, error) {
	base, err := r.ws.ImportPath(filepath.Join(r.dir, filepath.FromSlash(dir)))
	apply := slices.Contains(r.opts.Generators, "applyconfiguration") || len(r.askedFor("applyconfiguration")) > 0
	return client.Output{Base: base, Header: r.header, Apply: apply}, err
}

// add records files that are named by import path.
func (r *run) add(files []client.File) {
	for _, f := range files {
		name, err := r.ws.Directory(f.Name)
		if err == nil {
			err = r.out.add(name, f.Content)
		}
		r.fail(err)
	}
}

func (r *run) clients()   { r.each(client.Generate) }
func (r *run) listers()   { r.each(lister.Generate) }
func (r *run) informers() { r.each(informer.Generate) }

func (r *run) applyConfigurations() {
	for dir, pkgs := range r.outputs() {
		out, err := r.output(dir)
		if err != nil {
			r.fail(err)
			continue
		}
		files, warnings, err := applyconfiguration.Generate(applyconfiguration.Config{
			API: r.api, Workspace: r.ws, Packages: pkgs, Output: out, Definitions: r.definitionOptions(),
		})
		r.warnings = append(r.warnings, warnings...)
		r.fail(err)
		r.add(files)
	}
}

func (r *run) definitionsOfOpenAPI() {
	for dir, pkgs := range r.outputs() {
		out, err := r.output(dir)
		if err != nil {
			r.fail(err)
			continue
		}
		path := out.Base + "/openapi"
		src, err := openapi.Generate(openapi.Config{API: r.api, Packages: pkgs, Path: path, Header: r.header})
		r.fail(err)
		if src != nil {
			r.add([]client.File{{Name: path + "/" + openapi.FileName, Content: src}})
		}
	}
	perPackage(openapi.ModelFileName, openapi.ModelNames)(r)
}

func (r *run) documentation() {
	for _, p := range r.packages() {
		if !p.HasAPI {
			continue
		}
		doc := docs.Generate(r.api, p)
		if doc != nil {
			r.fail(r.out.add(filepath.Join(r.dir, "docs", "api", docs.FileName(p)), doc))
		}
	}
}
