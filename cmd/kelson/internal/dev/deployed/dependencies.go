package deployed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kelson.dev/cmd/kelson/internal/manifests"
	"kelson.dev/operator/operatortest/manifest"
	"kelson.dev/toolchain"
	"kelson.dev/toolchain/walk"
)

// Dependencies finds the CustomResourceDefinitions of kinds that an operator uses and another
// project defines.
type Dependencies struct {
	// Main is the folder of the operator's main package.
	Main string
	// Temp is a folder for generated files.
	Temp string
}

// Find returns the definitions of an API group, and where they come from. It searches the packages
// that the operator imports for the group's Go types, and reads the YAML files of their module. If
// those do not define the group, it generates the definitions from the types. It returns none if
// the operator imports no types of the group.
func (d Dependencies) Find(ctx context.Context, group string) (manifests.Objects, string, error) {
	packages, err := d.packages(ctx)
	if err != nil {
		return nil, "", err
	}
	var types []goPackage
	for _, p := range packages {
		if p.declares(group) {
			types = append(types, p)
		}
	}
	for _, p := range types {
		if found := definitionsIn(p.moduleDir, group); len(found) > 0 {
			return found, p.module, nil
		}
	}
	var all manifests.Objects
	var sources []string
	var errs []error
	for _, p := range types {
		found, err := d.generate(ctx, p, group)
		if errs = append(errs, err); len(found) > 0 {
			all, sources = append(all, found...), append(sources, p.path)
		}
	}
	if len(all) > 0 {
		return all, "the Go types of " + strings.Join(sources, ", "), nil
	}
	return nil, "", errors.Join(errs...)
}

// goPackage is a package of another module that the operator imports.
type goPackage struct{ path, dir, module, moduleDir string }

// packages lists the imported packages of other modules.
func (d Dependencies) packages(ctx context.Context) ([]goPackage, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-f",
		"{{with .Module}}{{if not .Main}}{{$.ImportPath}}\t{{$.Dir}}\t{{.Path}}\t{{.Dir}}{{end}}{{end}}", ".")
	cmd.Dir = d.Main
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the operator's packages: %w\n%s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	var all []goPackage
	for line := range strings.Lines(string(out)) {
		if f := strings.Split(strings.TrimSpace(line), "\t"); len(f) == 4 {
			all = append(all, goPackage{f[0], f[1], f[2], f[3]})
		}
	}
	return all, nil
}

// groupFiles are the files in which API packages name their group.
var groupFiles = []string{"doc.go", "groupversion_info.go", "groupversion.go", "register.go",
	"zz_generated.register.go"}

// declares reports whether a package has the types of an API group.
func (p goPackage) declares(group string) bool {
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if !slices.Contains(groupFiles, e.Name()) && !strings.Contains(e.Name(), "register") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(p.dir, e.Name()))
		if err == nil && (bytes.Contains(data, []byte(`"`+group+`"`)) ||
			bytes.Contains(data, []byte("groupName="+group))) {
			return true
		}
	}
	return false
}

// definitionsIn returns the definitions of a group in the YAML files of a module, each name once.
func definitionsIn(dir, group string) (found manifests.Objects) {
	seen := map[string]bool{}
	_ = walk.Dir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if e.IsDir() && (e.Name() == "testdata" || e.Name() == "test" || e.Name() == "vendor") {
			return filepath.SkipDir
		}
		if ext := filepath.Ext(name); e.IsDir() || ext != ".yaml" && ext != ".yml" {
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(data, []byte("kind: CustomResourceDefinition")) ||
			!bytes.Contains(data, []byte(group)) || bytes.Contains(data, []byte("{{")) {
			return nil
		}
		objects, err := manifest.Read(name)
		if err != nil {
			return nil // not a manifest
		}
		for _, o := range objects {
			if crdGroup, _, _ := unstructured.NestedString(o.Object.Object, "spec", "group"); crdGroup == group &&
				o.Object.GetKind() == "CustomResourceDefinition" && !seen[o.Object.GetName()] {
				seen[o.Object.GetName()] = true
				// the server of its webhook does not run
				unstructured.RemoveNestedField(o.Object.Object, "spec", "conversion")
				found = append(found, o.Object)
			}
		}
		return nil
	})
	return found
}

// generate generates the definitions of a package's types.
func (d Dependencies) generate(ctx context.Context, p goPackage, group string) (manifests.Objects, error) {
	dir, err := os.MkdirTemp(d.Temp, "definitions-")
	if err != nil {
		return nil, err
	}
	_, err = toolchain.Generate(ctx, toolchain.Options{
		Dir: p.moduleDir, Paths: []string{p.dir}, Generators: []string{"crd"}, Lenient: true, AllowFloats: true,
		Settings: map[string]toolchain.Settings{"crd": {Output: dir}},
	})
	if err != nil {
		return nil, fmt.Errorf("generate the definitions of %s: %w", p.path, err)
	}
	return definitionsIn(dir, group), nil
}

// missing matches the errors of clients that name a kind or resource that the server does not have.
var (
	missingKind     = regexp.MustCompile(`no matches for kind \\*"([A-Za-z0-9]+)\\*" in (?:version|group) \\*"([a-z0-9.-]+)`)
	missingResource = regexp.MustCompile(`could not find the requested resource \((?:get|list|watch|post|put|patch) ([a-z0-9]+)\.([a-z0-9-]+\.[a-z0-9.-]+)\)`)
	missingGroup    = regexp.MustCompile(`server APIs: ([a-z0-9-]+\.[a-z0-9.-]+)/v[0-9a-z]+: the server could not find`)
)

// MissingGroup returns the API group whose kinds a line of an operator's output reports as missing,
// or "".
func MissingGroup(line string) string {
	if m := missingKind.FindStringSubmatch(line); m != nil && strings.Contains(m[2], ".") {
		return m[2]
	}
	if m := missingResource.FindStringSubmatch(line); m != nil {
		return m[2]
	}
	if m := missingGroup.FindStringSubmatch(line); m != nil {
		return m[1]
	}
	return ""
}
