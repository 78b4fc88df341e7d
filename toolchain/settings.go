package toolchain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"kelson.dev/toolchain/loader"
)

// NothingError means that the project has nothing to generate, but modules below its directory do.
type NothingError struct {
	Dir     string   // the directory
	Modules []string // the directories of the modules, relative to Dir
}

func (e *NothingError) Error() string {
	return fmt.Sprintf("no package in %s has anything to generate, but another module below it does: %s; run kelson generate in that folder",
		e.Dir, strings.Join(e.Modules, ", "))
}

// elsewhere returns a *NothingError if modules below the directory have packages with markers.
func elsewhere(ctx context.Context, ws *loader.Workspace) error {
	var found []string
	for _, dir := range ws.Nested() {
		nested, err := loader.Open(ctx, loader.Config{Dir: dir})
		if err != nil || len(nested.Packages()) == 0 {
			continue
		}
		rel, err := filepath.Rel(ws.Dir(), dir)
		if err != nil {
			return err
		}
		found = append(found, "./"+filepath.ToSlash(rel))
	}
	if len(found) == 0 {
		return nil
	}
	return &NothingError{Dir: ws.Dir(), Modules: found}
}

// goHeader returns the header of a generator's Go files.
func (r *run) goHeader(generator string) string {
	set := r.opts.Settings[generator]
	if set.HeaderFile != "" {
		return r.text(set)
	}
	header, err := os.ReadFile(filepath.Join(r.dir, "hack", "boilerplate.go.txt"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.fail(err)
	}
	return string(header)
}

// text returns the header that settings name.
func (r *run) text(set Settings) string {
	if set.HeaderFile == "" || set.HeaderFile == "-" {
		return ""
	}
	name := set.HeaderFile
	if !filepath.IsAbs(name) {
		name = filepath.Join(r.dir, filepath.FromSlash(name))
	}
	header, err := os.ReadFile(name)
	if err != nil {
		r.fail(fmt.Errorf("read headerFile: %w", err))
	}
	return strings.ReplaceAll(string(header), " YEAR", " "+set.Year)
}

// headed returns a manifest with its generator's header.
func (r *run) headed(generator string, doc []byte) []byte {
	if header := r.text(r.opts.Settings[generator]); doc != nil && header != "" {
		return append([]byte(header), doc...)
	}
	return doc
}

// manifestDir returns the directory of a generator's manifests: that of its settings or the
// default, which is relative to the project.
func (r *run) manifestDir(generator, byDefault string) string {
	switch out := r.opts.Settings[generator].Output; {
	case out == "":
		return filepath.Join(r.dir, byDefault)
	case filepath.IsAbs(out):
		return out
	default:
		return filepath.Join(r.dir, filepath.FromSlash(out))
	}
}

// definitionDir returns the default directory of a project's CustomResourceDefinitions:
// config/crd/bases if it exists or config/crd/kustomization.yaml lists files in it, otherwise
// config/crd.
func definitionDir(dir string) string {
	crds := filepath.Join("config", "crd")
	bases := filepath.Join(crds, "bases")
	if st, err := os.Stat(filepath.Join(dir, bases)); err == nil && st.IsDir() {
		return bases
	}
	if kustomization, err := os.ReadFile(filepath.Join(dir, crds, "kustomization.yaml")); err == nil &&
		bytes.Contains(kustomization, []byte("- bases/")) {
		return bases
	}
	return crds
}

// versionAnnotation is the annotation in which controller-gen writes its version.
const versionAnnotation = "controller-gen.kubebuilder.io/version"

var annotated = regexp.MustCompile(`(?m)^    ` + regexp.QuoteMeta(versionAnnotation) + `: (\S+)$`)

// annotation returns the value of controller-gen's annotation in an existing definition, or "".
func annotation(name string) string {
	have, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	if m := annotated.FindSubmatch(have[:min(len(have), 4096)]); m != nil {
		return strings.Trim(string(m[1]), `"'`)
	}
	return ""
}
