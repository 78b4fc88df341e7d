package gen_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/require"
	"kelson.dev/toolchain/gen/protobuf"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

// kubernetesPackages are packages of k8s.io/api that together use all forms of fields.
var kubernetesPackages = []string{"core/v1", "apps/v1", "authentication/v1", "networking/v1", "resource/v1"}

// program prints the encoding of random objects of all messages, and reports those that change in a
// round trip.
const program = `package main

import (
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
IMPORTS
)

type message interface {
	Reset()
	Marshal() ([]byte, error)
	Size() int
	Unmarshal([]byte) error
}

func main() {
	for _, m := range []message{MESSAGES} {
		for seed := range int64(40) {
			randfill.NewWithSeed(seed).NilChance(.3).NumElements(0, 3).MaxDepth(14).Funcs(
				func(v *metav1.Time, c randfill.Continue) { *v = metav1.Unix(int64(c.Int31()), 0) },
				func(v *metav1.MicroTime, c randfill.Continue) { *v = metav1.NewMicroTime(time.Unix(int64(c.Int31()), 1000)) },
				func(v *metav1.TypeMeta, c randfill.Continue) {},
				func(v *resource.Quantity, c randfill.Continue) { *v = resource.MustParse(fmt.Sprint(c.Int31())) },
				func(v *intstr.IntOrString, c randfill.Continue) { *v = intstr.FromInt32(c.Int31()) },
				func(v *runtime.RawExtension, c randfill.Continue) { v.Raw = []byte("{}") },
			).Fill(m)
			data, err := m.Marshal()
			if err != nil || len(data) != m.Size() {
				fmt.Printf("%T %d: %v, %d bytes, size %d\n", m, seed, err, len(data), m.Size())
			}
			fmt.Printf("%T %d %x\n", m, seed, data)
			again := reflect.New(reflect.TypeOf(m).Elem()).Interface().(message)
			err = again.Unmarshal(data)
			fmt.Println(err == nil && equality.Semantic.DeepEqual(m, again))
			if other, err := again.Marshal(); err != nil || string(other) != string(data) {
				fmt.Printf("%T %d: %v after decoding: %x\n", m, seed, err, other)
			}
			// Truncated and garbled input must not panic. Reset, because Unmarshal appends to lists.
			for n := range min(len(data), GARBLED) {
				again.Reset()
				_ = again.Unmarshal(data[:n])
				garbled := append([]byte(nil), data...)
				garbled[n] ^= 0xff
				again.Reset()
				_ = again.Unmarshal(garbled)
			}
			m.Reset()
		}
	}
}
`

// For random objects of Kubernetes' own types, the generated code and the code of go-to-protobuf
// encode the same bytes and decode the same objects.
func TestProtobufKubernetesTypes(t *testing.T) {
	require.Long(t, "compiles packages of k8s.io/api")
	copied, api := copyOfKubernetes(t)
	var imports, messages strings.Builder
	for _, p := range api.Packages {
		files, err := protobuf.Generate(protobuf.Config{API: api, Package: p, Generated: func(*model.Package) bool {
			return true
		}})
		require.NoError(t, err)
		if files.Lock != nil {
			t.Errorf("%s: fields without numbers: %s", p.Path, files.Lock)
		}
		rel := strings.TrimPrefix(p.Path, "k8s.io/api/")
		generated := filepath.Join(copied, rel, protobuf.FileName)
		require.NoError(t, os.WriteFile(generated, files.Source, 0o644))
		alias := strings.ReplaceAll(rel, "/", "")
		imports.WriteString("\t" + alias + ` "` + p.Path + "\"\n")
		for line := range strings.Lines(string(files.Schema)) {
			if name, ok := strings.CutPrefix(line, "message "); ok {
				messages.WriteString("new(" + alias + "." + strings.Fields(name)[0] + "), ")
			}
		}
	}
	source := strings.NewReplacer("IMPORTS", imports.String(), "MESSAGES", messages.String()).Replace(program)
	// The program with Kubernetes' own code is below this module, and the other one is in the copy.
	folder, _ := newFolder(t)
	other := filepath.Join(copied, "cmd")
	// Kubernetes' own code gets no garbled input: the comparison needs only its encoding.
	for dir, garbled := range map[string]string{folder: "0", other: "200"} {
		err := os.MkdirAll(dir, 0o755)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "main.go"), []byte(strings.ReplaceAll(source, "GARBLED", garbled)),
				0o644)
		}
		require.NoError(t, err)
	}
	// With -trimpath, the build cache has the packages of the copy, although its folder is new.
	theirs, ours := run(t, folder), run(t, other, "GOWORK=off", "GOFLAGS=-mod=mod -trimpath", "GOPROXY=off")
	if len(theirs) < 10000 || len(theirs) != len(ours) {
		t.Fatalf("%d and %d lines", len(theirs), len(ours))
	}
	differ := 0
	for i := range theirs {
		if theirs[i] != ours[i] {
			if differ++; differ <= 5 {
				t.Errorf("Kubernetes: %.1000s\nKelson:     %.1000s", theirs[i], ours[i])
			}
		}
	}
	t.Logf("%d lines, %d differ", len(theirs), differ)
}

// moduleDirProtobuf returns the directory of a module that this module requires.
func moduleDirProtobuf(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", name).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// copyOfKubernetes returns a copy of kubernetesPackages without their generated code.
func copyOfKubernetes(t *testing.T) (copied string, api *model.API) {
	t.Helper()
	module := moduleDirProtobuf(t, "k8s.io/api")
	copied = t.TempDir()
	copyFileProtobuf(t, filepath.Join(module, "go.mod"), filepath.Join(copied, "go.mod"))
	copyFileProtobuf(t, filepath.Join(module, "go.sum"), filepath.Join(copied, "go.sum"))
	for _, name := range kubernetesPackages {
		files, err := filepath.Glob(filepath.Join(module, name, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(err)
		}
		for _, file := range files {
			if base := filepath.Base(file); !strings.HasSuffix(base, ".pb.go") {
				copyFileProtobuf(t, file, filepath.Join(copied, name, base))
			}
		}
	}
	ws, err := loader.Open(context.Background(), loader.Config{Dir: copied})
	require.NoError(t, err)
	api, err = model.Build(ws, marker.Standard())
	require.NoError(t, err)
	return copied, api
}

// run runs the program in a folder and returns the lines that it prints.
func run(t *testing.T, folder string, env ...string) []string {
	t.Helper()
	cmd := exec.Command("go", "run", ".")
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), env...)
	var failed strings.Builder
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%.4000s", folder, err, failed.String())
	}
	return strings.Split(string(out), "\n")
}

func copyFileProtobuf(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, data, 0o644)
	}
	require.NoError(t, err)
}
