package gen_test

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain/gen/validation"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

// checks collects the comparisons for the program.
type checks struct {
	imports, calls strings.Builder
	aliases        map[string]string
}

func (c *checks) use(path string) string {
	if c.aliases == nil {
		c.aliases = map[string]string{}
	}
	if c.aliases[path] == "" {
		c.aliases[path] = fmt.Sprintf("p%d", len(c.aliases))
		fmt.Fprintf(&c.imports, "\t%s %q\n", c.aliases[path], path)
	}
	return c.aliases[path]
}

var (
	functionLine = regexp.MustCompile(`(?m)^func (Validate_(\w+))\(`)
	stringWord   = regexp.MustCompile(`"([^"\\\n]{0,80})"`)
	optionName   = regexp.MustCompile(`if(?:Enabled|Disabled)\("?([^")]+)"?\)`)
)

// add compares the functions of one package. theirs is the source of validation-gen, types that of
// the types.
func (c *checks) add(theirs, types []byte, their, our, prefix string) int {
	var words, options []string
	for _, m := range stringWord.FindAllStringSubmatch(string(theirs)+string(types), -1) {
		if !slices.Contains(words, m[1]) && !strings.Contains(m[1], "k8s.io/") && !strings.HasPrefix(m[1], "json:") {
			words = append(words, m[1])
		}
	}
	for _, m := range optionName.FindAllStringSubmatch(string(types), -1) {
		if !slices.Contains(options, m[1]) {
			options = append(options, m[1])
		}
	}
	found := 0
	for _, m := range functionLine.FindAllStringSubmatch(string(theirs), -1) {
		if ast.IsExported(m[2]) {
			found++
			fmt.Fprintf(&c.calls, "\tcheck(%q, %s.%s, %s.%s, %#v, %#v)\n", their+"."+m[2], c.use(their), m[1],
				c.use(our), prefix+m[1], words, options)
		}
	}
	return found
}

func (c *checks) program(rounds int) []byte {
	return []byte(strings.NewReplacer("IMPORTS", c.imports.String(), "CHECKS", c.calls.String(), "ROUNDS",
		strconv.Itoa(rounds)).Replace(compare))
}

// moduleDirValidation returns the directory of a module that this one does not require.
func moduleDirValidation(t *testing.T, module string) string {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	var m struct{ Dir string }
	if err != nil || json.Unmarshal(out, &m) != nil || m.Dir == "" {
		t.Skipf("%s cannot be downloaded: %v", module, err)
	}
	return m.Dir
}

// On the test packages of validation-gen, the generated functions return the same errors for random
// objects and updates as those of validation-gen.
func TestOutputTests(t *testing.T) {
	require.Long(t, "compiles the test packages of validation-gen")
	version, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "k8s.io/apimachinery").Output()
	require.NoError(t, err)
	module, copied := moduleDirValidation(t, "k8s.io/code-generator@"+strings.TrimSpace(string(version))), t.TempDir()
	copyFileValidation(t, filepath.Join(module, "go.mod"), filepath.Join(copied, "go.mod"))
	copyFileValidation(t, filepath.Join(module, "go.sum"), filepath.Join(copied, "go.sum"))
	for _, dir := range []string{"cmd/validation-gen/output_tests", "cmd/validation-gen/testscheme"} {
		err := filepath.WalkDir(filepath.Join(module, dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				rel, _ := filepath.Rel(module, path)
				copyFileValidation(t, path, filepath.Join(copied, rel))
			}
			return err
		})
		require.NoError(t, err)
	}
	api := build(t, copied)
	generated := func(p *loader.Package) bool {
		// multiple_packages has functions in packages other than those of the types.
		return strings.Contains(p.Path, "/output_tests/") && !strings.Contains(p.Path, "/multiple_packages/")
	}
	var c checks
	packages := 0
	for _, p := range api.Packages {
		const prefix = "Kelson"
		theirs, _ := os.ReadFile(filepath.Join(p.Dir, "zz_generated.validations.go"))
		if !generated(p.Package) || len(theirs) == 0 || p.Markers.Has("k8s:validation-gen-input") {
			continue
		}
		source, err := validation.Generate(validation.Config{API: api, Package: p, Generated: generated,
			Prefix: prefix})
		if err != nil {
			t.Errorf("%s: %v", p.Path, err)
			continue
		}
		if source == nil {
			if functionLine.Match(theirs) {
				t.Errorf("%s: no functions", p.Path)
			}
			continue
		}
		require.NoError(t, os.WriteFile(filepath.Join(p.Dir, "zz_kelson.go"), source, 0o644))
		if c.add(theirs, goFiles(t, p.Dir), p.Path, p.Path, prefix) > 0 {
			packages++
		}
	}
	if packages < 80 {
		t.Errorf("%d packages", packages)
	}
	dir := filepath.Join(copied, "compare")
	write(t, filepath.Join(dir, "main.go"), c.program(300))
	// With -trimpath, the build cache has the packages of the copy, although its folder is new.
	judge(t, runProgram(t, dir, "GOWORK=off", "GOFLAGS=-mod=mod -trimpath"), 200)
}

// For Kubernetes' own types, the generated functions return the same errors as those of
// validation-gen in k8s.io/kubernetes.
func TestValidationKubernetesTypes(t *testing.T) {
	require.Long(t, "compiles packages of k8s.io/kubernetes")
	types, kubernetes := requiredDir(t, "k8s.io/api"), requiredDir(t, "k8s.io/kubernetes")
	theirs := map[string]string{} // import path of types → that of the functions
	docs, err := filepath.Glob(filepath.Join(kubernetes, "pkg", "apis", "*", "*", "doc.go"))
	require.NoError(t, err)
	for _, doc := range docs {
		data, err := os.ReadFile(doc)
		require.NoError(t, err)
		if m := inputLine.FindSubmatch(data); m != nil {
			rel, _ := filepath.Rel(kubernetes, filepath.Dir(doc))
			theirs[string(m[1])] = "k8s.io/kubernetes/" + filepath.ToSlash(rel)
		}
	}
	folder, base := newFolder(t)
	output := func(p *loader.Package) (path, name string) {
		name = strings.ReplaceAll(strings.TrimPrefix(p.Path, "k8s.io/api/"), "/", "")
		return base + "/" + name, name
	}
	api := build(t, types)
	generated := func(p *loader.Package) bool { return theirs[p.Path] != "" }
	var c checks
	packages := 0
	for _, p := range api.Packages {
		if !generated(p.Package) {
			continue
		}
		source, err := validation.Generate(validation.Config{API: api, Package: p, Generated: generated,
			Output: output})
		if err != nil {
			t.Errorf("%s: %v", p.Path, err)
			continue
		}
		dir := filepath.Join(kubernetes, strings.TrimPrefix(theirs[p.Path], "k8s.io/kubernetes/"))
		functions, err := os.ReadFile(filepath.Join(dir, "zz_generated.validations.go"))
		require.NoError(t, err)
		if source == nil {
			if functionLine.Match(functions) {
				t.Errorf("%s: no functions", p.Path)
			}
			continue
		}
		path, name := output(p.Package)
		write(t, filepath.Join(folder, name, "generated.go"), source)
		if custom := customLine.FindAllStringSubmatch(string(goFiles(t, dir)), -1); custom != nil {
			forward := "package " + name + "\n\nimport theirs " + strconv.Quote(theirs[p.Path]) + "\n"
			for _, m := range custom {
				forward += "\nvar " + m[1] + " = theirs." + m[1] + "\n"
			}
			write(t, filepath.Join(folder, name, "custom.go"), []byte(forward))
		}
		if c.add(functions, goFiles(t, p.Dir), theirs[p.Path], path, "") > 0 {
			packages++
		}
	}
	if packages < 40 {
		t.Errorf("%d packages", packages)
	}
	write(t, filepath.Join(folder, "main.go"), c.program(150))
	judge(t, runProgram(t, folder), 430)
}

var (
	inputLine  = regexp.MustCompile(`(?m)^// \+k8s:validation-gen-input=(\S+)$`)
	customLine = regexp.MustCompile(`(?m)^func (ValidateCustom_\w+)\(`)
)

func requiredDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// judge reports the differences that the program printed.
func judge(t *testing.T, out string, atLeast int) {
	t.Helper()
	summary := out[strings.LastIndex(strings.TrimSpace(out), "\n")+1:]
	t.Log(strings.TrimSpace(summary))
	var types, objects, invalid, errs, kinds, panics, differ int
	_, err := fmt.Sscanf(summary, "types %d objects %d invalid %d errors %d kinds %d panics %d differ %d", &types,
		&objects, &invalid, &errs, &kinds, &panics, &differ)
	require.NoErrorf(t, err, "%.4000s", out)
	if differ > 0 {
		t.Errorf("%d of %d objects differ\n%.12000s", differ, objects, out)
	}
	if types < atLeast || invalid < objects/10 || kinds < 5 {
		t.Errorf("the comparison covers too little: %s", summary)
	}
}

func build(t *testing.T, dir string) *model.API {
	t.Helper()
	ws, err := loader.Open(context.Background(), loader.Config{Dir: dir})
	require.NoError(t, err)
	api, err := model.Build(ws, marker.Standard())
	if err != nil { // Kubernetes' own types have no storage versions
		for line := range strings.Lines(err.Error()) {
			assert.Contains(t, line, "+kubebuilder:storageversion")
		}
	}
	for _, err := range api.MarkerErrors { // this test ignores other markers
		for line := range strings.Lines(err.Error()) {
			if strings.Contains(line, "+k8s:") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
	return api
}

func goFiles(t *testing.T, dir string) (all []byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, f := range files {
		if base := filepath.Base(f); strings.HasPrefix(base, "zz_") || strings.HasPrefix(base, "generated") ||
			strings.HasSuffix(base, "_test.go") {
			continue
		}
		data, err := os.ReadFile(f)
		require.NoError(t, err)
		all = append(all, data...)
	}
	return all
}

func runProgram(t *testing.T, dir string, env ...string) string {
	t.Helper()
	cmd := exec.Command("go", "run", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var failed strings.Builder
	cmd.Stderr = &failed
	out, err := cmd.Output()
	require.NoErrorf(t, err, "\n%.8000s", failed.String())
	return string(out)
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	if err == nil {
		err = os.WriteFile(name, data, 0o644)
	}
	require.NoError(t, err)
}

func copyFileValidation(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	write(t, to, data)
}
