package gen_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/reflect/protoreflect"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain/gen/protobuf"
	"kelson.dev/toolchain/model"
)

// A compiler of .proto files accepts the generated ones, and their messages have the fields of
// those that go-to-protobuf generated for the same types.
func TestSchemasOfKubernetes(t *testing.T) {
	require.Long(t, "reads packages of k8s.io/api")
	_, api := copyOfKubernetes(t)
	ours := map[string]string{}
	for _, p := range api.Packages {
		files, err := protobuf.Generate(protobuf.Config{API: api, Package: p, Generated: func(*model.Package) bool {
			return true
		}})
		require.NoError(t, err)
		ours[p.Path+"/"+protobuf.SchemaFileName] = string(files.Schema)
	}
	modules := map[string]string{"k8s.io/api": moduleDirProtobuf(t, "k8s.io/api"),
		"k8s.io/apimachinery": moduleDirProtobuf(t, "k8s.io/apimachinery")}
	theirs := func(name string) (io.ReadCloser, error) {
		for module, dir := range modules {
			if rest, ok := strings.CutPrefix(name, module+"/"); ok {
				return os.Open(filepath.Join(dir, rest))
			}
		}
		return nil, os.ErrNotExist
	}
	compile := func(names []string, accessor func(string) (io.ReadCloser, error)) protoreflect.FileDescriptor {
		t.Helper()
		compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(
			&protocompile.SourceResolver{Accessor: accessor})}
		files, err := compiler.Compile(t.Context(), names...)
		require.NoError(t, err)
		return files[0]
	}
	fields := 0
	for name := range ours {
		want := compile([]string{name}, theirs)
		got := compile([]string{name}, func(file string) (io.ReadCloser, error) {
			if text, ok := ours[file]; ok {
				return io.NopCloser(strings.NewReader(text)), nil
			}
			return theirs(file)
		})
		assert.Equalf(t, got.Package(), want.Package(), "%s is package", name)
		for i := range want.Messages().Len() {
			w := want.Messages().Get(i)
			g := got.Messages().ByName(w.Name())
			if g == nil {
				t.Errorf("%s has no message %s", name, w.Name())
				continue
			}
			if g.Fields().Len() != w.Fields().Len() {
				t.Errorf("%s has %d fields, want %d", w.FullName(), g.Fields().Len(), w.Fields().Len())
			}
			for j := range w.Fields().Len() {
				fields++
				if was := w.Fields().Get(j); describe(g.Fields().ByNumber(was.Number())) != describe(was) {
					t.Errorf("%s: field %d is %s, want %s", w.FullName(), was.Number(),
						describe(g.Fields().ByNumber(was.Number())), describe(was))
				}
			}
		}
		if g, w := got.Messages().Len(), want.Messages().Len(); g != w {
			t.Errorf("%s has %d messages, want %d", name, g, w)
		}
	}
	if fields < 1000 {
		t.Errorf("compared only %d fields", fields)
	}
	t.Logf("%d fields of %d files", fields, len(ours))
}

// describe returns the properties of a field on which clients depend.
func describe(f protoreflect.FieldDescriptor) string {
	if f == nil {
		return "missing"
	}
	text := f.Cardinality().String() + " " + f.Kind().String() + " " + string(f.Name())
	switch {
	case f.IsMap():
		return text + " of " + describe(f.MapValue())
	case f.Message() != nil:
		text += " " + string(f.Message().FullName())
	}
	return text
}
