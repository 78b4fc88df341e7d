package generators

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kelson.dev/internal/require"
	"kelson.dev/toolchain"
)

// project is a module whose API packages both sides read.
type project struct {
	module, version string
	dir             string // relative to the module
	generators      []string
	// within are modules in subdirectories of the project, which its archive does not include.
	within map[string]string
	// lenient ignores unknown markers, which Kelson would report as errors.
	lenient bool
	// embedded generates schemas for metadata inside of objects.
	embedded bool
}

var projects = []project{
	{"sigs.k8s.io/cluster-api/api", "v1.14.2", ".", []string{"crd", "object"}, nil, false, false},
	{"sigs.k8s.io/cluster-api", "v1.14.2", "core", []string{"rbac", "webhook"},
		map[string]string{"api": "sigs.k8s.io/cluster-api/api"}, false, false},
	{"github.com/cert-manager/cert-manager", "v1.21.2", "pkg/apis", []string{"crd"}, nil, false, false},
	{"github.com/external-secrets/external-secrets", "v0.20.4", "apis", []string{"crd", "object"}, nil, true, false},
	{"github.com/argoproj/argo-rollouts", "v1.9.0", "pkg/apis/rollouts", []string{"crd"}, nil, false, false},
	{"github.com/argoproj/argo-rollouts", "v1.9.0", "pkg/apis/rollouts", []string{"crd"}, nil, false, true},
}

// The outputs for real projects equal controller-gen's, field by field and statement by statement.
func TestProjects(t *testing.T) {
	if os.Getenv("KELSON_GENERATORS") == "" {
		t.Skip("downloads projects; make generators runs it")
	}
	for _, p := range projects {
		name := path.Base(p.module) + "/" + p.dir
		if p.embedded {
			name += " with metadata"
		}
		t.Run(name, func(t *testing.T) {
			root := download(t, p.module, p.version)
			dir := filepath.Join(root, p.dir)
			theirs, err := controllerGen(t, root, p)
			require.NoError(t, err)
			t.Setenv("GOWORK", "off")
			result, err := toolchain.Generate(t.Context(),
				toolchain.Options{Dir: dir, Generators: p.generators, Check: true, Lenient: p.lenient,
					EmbeddedObjectMeta: p.embedded})
			if err != nil && !errors.Is(err, toolchain.ErrStale) {
				t.Fatal(err)
			}
			ours := map[string][]byte{}
			for _, f := range result.Files {
				name := f.Path
				if strings.HasPrefix(name, "config/") {
					name = path.Base(name)
				}
				ours[name] = f.Content
			}
			compare(t, theirs, ours)
			t.Logf("%d files are the same", len(ours))
		})
	}
}

func compare(t *testing.T, theirs, ours map[string][]byte) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if ours[name] == nil {
			t.Errorf("%s is missing", name)
			continue
		}
		var diffs []string
		if strings.HasSuffix(name, ".go") {
			diffs = compareGo(t, theirs[name], ours[name])
		} else {
			diffs = compareYAML(t, theirs[name], ours[name])
		}
		for i, d := range diffs {
			if i == 10 {
				t.Errorf("%s: … %d more", name, len(diffs)-i)
				break
			}
			t.Errorf("%s: %s", name, d)
		}
	}
	for name := range ours {
		if theirs[name] == nil {
			t.Errorf("%s: controller-gen does not generate it", name)
		}
	}
}

// download downloads a module and returns its directory.
func download(t *testing.T, module, version string) string {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", module+"@"+version)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	var got struct{ Dir, Error string }
	if json.Unmarshal(out, &got) != nil || got.Dir == "" {
		t.Skipf("cannot download %s: %s %v", module, got.Error, err)
	}
	return got.Dir
}

// controllerGen runs controller-gen in a copy of the module, because it writes next to the types.
func controllerGen(t *testing.T, root string, p project) (map[string][]byte, error) {
	t.Helper()
	bin, err := Peer(t.Context())
	if err != nil {
		return nil, err
	}
	work, out := t.TempDir(), t.TempDir()
	if err := copyModule(root, work); err != nil {
		return nil, err
	}
	for at, module := range p.within {
		if err := copyModule(download(t, module, p.version), filepath.Join(work, at)); err != nil {
			return nil, err
		}
	}
	args := []string{"paths=./..."}
	for _, n := range p.generators {
		switch n {
		case "rbac":
			args = append(args, "rbac:roleName=manager-role", "output:rbac:dir="+out)
		case "object":
			args = append(args, n)
		case "crd":
			args = append(args, fmt.Sprintf("crd:generateEmbeddedObjectMeta=%t", p.embedded), "output:crd:dir="+out)
		default:
			args = append(args, n, "output:"+n+":dir="+out)
		}
	}
	in := filepath.Join(work, p.dir)
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Dir, cmd.Env = in, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("controller-gen: %w\n%s", err, text)
	}
	files := map[string][]byte{}
	manifests, err := filepath.Glob(filepath.Join(out, "*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, name := range manifests {
		if files[filepath.Base(name)], err = os.ReadFile(name); err != nil {
			return nil, err
		}
	}
	if !slices.Contains(p.generators, "object") {
		return files, nil
	}
	err = filepath.WalkDir(in, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "zz_generated.deepcopy.go" {
			return err
		}
		rel, err := filepath.Rel(in, name)
		if err == nil {
			files[filepath.ToSlash(rel)], err = os.ReadFile(name)
		}
		return err
	})
	return files, err
}

// copyModule copies a module's Go files and go.mod, because the module cache is read-only.
func copyModule(from, to string) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		}
		if ext := filepath.Ext(name); ext != ".go" && ext != ".mod" && ext != ".sum" {
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o644)
	})
}

// compareYAML returns the differences of documents, field by field.
func compareYAML(t *testing.T, theirs, ours []byte) []string {
	t.Helper()
	a, b := documents(t, theirs), documents(t, ours)
	var diffs []string
	for _, name := range slices.Sorted(maps.Keys(a)) {
		differences(name, a[name], b[name], &diffs)
	}
	for name := range b {
		if a[name] == nil {
			diffs = append(diffs, name+" is not there with controller-gen")
		}
	}
	return diffs
}

func documents(t *testing.T, data []byte) map[string]any {
	t.Helper()
	docs := map[string]any{}
	for part := range bytes.SplitSeq(data, []byte("\n---\n")) {
		part = bytes.TrimPrefix(bytes.TrimSpace(part), []byte("---"))
		var doc map[string]any
		require.NoError(t, yaml.Unmarshal(part, &doc))
		if doc == nil {
			continue
		}
		meta, _ := doc["metadata"].(map[string]any)
		if annotations, ok := meta["annotations"].(map[string]any); ok {
			// the value is the version of the generator
			delete(annotations, "controller-gen.kubebuilder.io/version")
			if len(annotations) == 0 {
				delete(meta, "annotations")
			}
		}
		docs[fmt.Sprint(doc["kind"], " ", meta["namespace"], "/", meta["name"])] = doc
	}
	return docs
}

func differences(at string, a, b any, diffs *[]string) {
	x, ok1 := a.(map[string]any)
	y, ok2 := b.(map[string]any)
	if ok1 && ok2 {
		for _, k := range slices.Sorted(maps.Keys(x)) {
			differences(at+"."+k, x[k], y[k], diffs)
		}
		for k := range y {
			if _, both := x[k]; !both {
				*diffs = append(*diffs, at+"."+k+" is not there with controller-gen")
			}
		}
		return
	}
	l, ok1 := a.([]any)
	m, ok2 := b.([]any)
	if ok1 && ok2 && len(l) == len(m) {
		for i := range l {
			differences(at+"["+strconv.Itoa(i)+"]", l[i], m[i], diffs)
		}
		return
	}
	if !reflect.DeepEqual(a, b) {
		*diffs = append(*diffs, fmt.Sprintf("%s is %v, with controller-gen %v", at, b, a))
	}
}

// compareGo returns the functions that differ, independent of their order and the names of imports.
func compareGo(t *testing.T, theirs, ours []byte) []string {
	t.Helper()
	a, b := functions(t, theirs), functions(t, ours)
	var diffs []string
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if a[name] != b[name] {
			diffs = append(diffs, fmt.Sprintf("%s is\n%s\nwith controller-gen\n%s", name, b[name], a[name]))
		}
	}
	for name := range b {
		if a[name] == "" {
			diffs = append(diffs, name+" is not there with controller-gen")
		}
	}
	return diffs
}

// functions returns the functions of a file as text, with the names of imports replaced by their
// paths.
func functions(t *testing.T, src []byte) map[string]string {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "", src, parser.SkipObjectResolution)
	require.NoError(t, err)
	paths := map[string]string{}
	for _, spec := range f.Imports {
		p, _ := strconv.Unquote(spec.Path.Value)
		name := path.Base(p)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		paths[name] = strings.NewReplacer("/", "_", ".", "_", "-", "_").Replace(p)
	}
	found := map[string]string{}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := sel.X.(*ast.Ident); ok && paths[x.Name] != "" {
					x.Name = paths[x.Name]
				}
			}
			return true
		})
		var buf bytes.Buffer
		fn.Doc = nil
		require.NoError(t, format.Node(&buf, fset, fn))
		recv := ""
		if fn.Recv != nil {
			var r bytes.Buffer
			_ = format.Node(&r, fset, fn.Recv.List[0].Type)
			recv = r.String() + "."
		}
		found[recv+fn.Name.Name] = strings.Join(strings.Fields(buf.String()), " ")
	}
	return found
}
