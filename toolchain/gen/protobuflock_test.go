package gen_test

import (
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
	"kelson.dev/toolchain/gen/protobuf"
	"kelson.dev/toolchain/internal/modtest"
	"kelson.dev/toolchain/marker"
	"kelson.dev/toolchain/model"
)

// generateProtobuf generates the methods of a package with this source.
func generateProtobuf(t *testing.T, source, lock string) (protobuf.Files, error) {
	t.Helper()
	_, ws := modtest.Open(t, map[string]string{"go.mod": "module example.com/p\n\ngo 1.26\n", "v1/types.go": source})
	api, err := model.Build(ws, marker.Standard())
	require.NoError(t, err)
	return protobuf.Generate(protobuf.Config{API: api, Package: api.Packages[0], Lock: []byte(lock),
		Generated: func(*model.Package) bool { return false }})
}

// Numbers of fields without a tag are never used for another field.
func TestLock(t *testing.T) {
	const source = `// +groupName=example.com
package v1

// Spec is a message.
type Spec struct {
	Tagged string ` + "`json:\"tagged\" protobuf:\"bytes,3,opt,name=tagged\"`" + `
	// name is a name.
	Name   string ` + "`json:\"name\"`" + `
	Counts map[string]int64 ` + "`json:\"counts\"`" + `
	Out    func() ` + "`protobuf:\"-\"`" + `
}

type Names []string
`
	files, err := generateProtobuf(t, source, "")
	require.NoError(t, err)
	const header = "# The protobuf numbers of fields without a protobuf tag. Keep this file in version control; do not edit it.\n"
	assert.Equalf(t, string(files.Lock), header+"Spec.Counts 5\nSpec.Name 4\n", "lock file")
	for _, want := range []string{
		"package example.com.p.v1;\n", "message Names {\n  repeated string items = 1;\n}\n",
		"// Spec is a message.\nmessage Spec {\n  optional string tagged = 3;\n\n  // name is a name.\n  optional string name = 4;\n\n  map<string, int64> counts = 5;\n}\n",
	} {
		assert.Containsf(t, string(files.Schema), want, "schema")
	}

	// If Counts is removed and another field is added, the new field does not get the number of
	// Counts.
	next := strings.Replace(source, "Counts map[string]int64 `json:\"counts\"`", "Size int `json:\"size\"`", 1)
	files, err = generateProtobuf(t, next, string(files.Lock))
	require.NoError(t, err)
	assert.Equalf(t, string(files.Lock), header+"Spec.Counts 5\nSpec.Name 4\nSpec.Size 6\n", "lock file")
}

// A type that protobuf cannot encode is an error at the field.
func TestErrorsOfProtobuf(t *testing.T) {
	for field, want := range map[string]string{
		"A any `json:\"a\"`":                                    "types.go:4:17: protobuf: T.A: protobuf cannot encode",
		"A []map[string]string `json:\"a\"`":                    "protobuf has no lists of map[string]string",
		"A string `protobuf:\"bytes,x,opt\"`":                   `"x" is not a field number`,
		"A string `protobuf:\"bytes,19000,opt\"`":               `"19000" is not a field number`,
		"A, B string `protobuf:\"bytes,1,opt\"`":                "fields A and B have the number 1",
		"A map[string][]string `json:\"a\"`":                    "protobuf cannot encode",
		"A string `json:\"a\"`\n}\ntype U struct {\nV chan int": "protobuf: U.V: protobuf cannot encode",
	} {
		_, err := generateProtobuf(t, "// +groupName=example.com\npackage v1\n\ntype T struct { "+field+" }\n", "")
		assert.ErrorContainsf(t, err, want, "%s", field)
	}
	if _, err := generateProtobuf(t, "// +groupName=example.com\npackage v1\n\ntype T struct{ A string }\n",
		"T.A four\n"); err == nil || !strings.Contains(err.Error(),
		`line 1: "T.A four" must have the form TYPE.FIELD NUMBER`) {
		t.Errorf("wrong lock file: %v", err)
	}
}
