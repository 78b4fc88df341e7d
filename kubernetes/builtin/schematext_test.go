package builtin

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"

	"kelson.dev/internal/require"
)

var update = flag.Bool("update", false, "rewrite schemas.txt")

// The text equals Kubernetes' own definitions of every type that a kind reaches in any version.
// -update regenerates it.
func TestSchemaText(t *testing.T) {
	want := upstreamSchema(t)
	var text strings.Builder
	text.WriteString("# Made by go generate from the definitions of k8s.io/kubernetes; the grammar is in schematext.go.\n")
	for _, name := range slices.Sorted(maps.Keys(want)) {
		line := printAtom(want[name].Atom)
		back, err := parseAtom(line)
		require.NoErrorf(t, err, "%s", name)
		if !reflect.DeepEqual(back, want[name].Atom) {
			t.Errorf("%s changes when it is written as text and parsed:\n%s", name, line)
		}
		fmt.Fprintf(&text, "%s %s\n", name, line)
	}
	if *update {
		require.NoError(t, os.WriteFile("schemas.txt", []byte(text.String()), 0o666))
		return
	}
	if text.String() != schemaText {
		t.Error("schemas.txt does not match Kubernetes' definitions: run go generate")
	}
}

// upstreamSchema returns the types that all kinds in all versions and bodies of subresources reach,
// built as Kubernetes builds them.
func upstreamSchema(t *testing.T) map[string]smd.TypeDef {
	t.Helper()
	definitions := openapi.GetOpenAPIDefinitions(func(name string) spec.Ref {
		return spec.MustCreateRef("#/components/schemas/" + common.EscapeJsonPointer(name))
	})
	models := map[string]*spec.Schema{}
	var collect func(name string)
	collect = func(name string) {
		def, ok := definitions[name]
		if _, done := models[name]; done || !ok {
			return
		}
		models[name] = &def.Schema
		for _, dep := range def.Dependencies {
			collect(dep)
		}
	}
	list, err := allKinds(Config{})
	require.NoError(t, err)
	for _, r := range list {
		for _, version := range r.Versions {
			obj, err := Scheme().New(r.GVK(version.Name))
			require.NoError(t, err)
			collect(obj.(interface{ OpenAPIModelName() string }).OpenAPIModelName())
		}
	}
	collect(authenticationv1.TokenRequest{}.OpenAPIModelName())
	collect(autoscalingv1.Scale{}.OpenAPIModelName())
	collect(policyv1.Eviction{}.OpenAPIModelName())
	converted, err := schemaconv.ToSchemaFromOpenAPI(models, false)
	require.NoError(t, err)
	out := map[string]smd.TypeDef{}
	for _, def := range converted.Types {
		if def.Map != nil { // built from a map: the order is random and has no meaning
			for i, f := range def.Map.Fields {
				switch v := reflect.ValueOf(f.Default); v.Kind() {
				case reflect.Int, reflect.Int32: // schemas do not distinguish integers
					def.Map.Fields[i].Default = v.Int()
				case reflect.String: // nor named string types
					def.Map.Fields[i].Default = v.String()
				}
			}
			slices.SortFunc(def.Map.Fields, func(a, b smd.StructField) int { return strings.Compare(a.Name, b.Name) })
		}
		out[def.Name] = def
	}
	return out
}

func letterOf[V comparable](letters map[byte]V, value V) string {
	for letter, v := range letters {
		if v == value {
			return string(letter)
		}
	}
	return ""
}

func printAtom(a smd.Atom) string {
	var b strings.Builder
	if a.Scalar != nil {
		b.WriteString(letterOf(scalars, *a.Scalar))
	}
	if l := a.List; l != nil {
		b.WriteString("[" + letterOf(relations, l.ElementRelationship))
		for _, key := range l.Keys {
			b.WriteString("," + key)
		}
		b.WriteString(" " + printRef(l.ElementType) + "]")
	}
	if m := a.Map; m != nil {
		b.WriteString("{")
		if m.ElementRelationship != "" {
			b.WriteString(letterOf(relations, m.ElementRelationship) + ",")
		}
		for _, f := range m.Fields {
			b.WriteString(f.Name + ":" + printRef(f.Type))
			if f.Default != nil {
				value, _ := json.Marshal(f.Default)
				b.WriteString("=" + strconv.Quote(string(value)))
			}
			b.WriteString(";")
		}
		b.WriteString(" " + printRef(m.ElementType) + "}")
	}
	return b.String()
}

func printRef(t smd.TypeRef) string {
	var b strings.Builder
	if t.ElementRelationship != nil {
		b.WriteString("!" + letterOf(relations, *t.ElementRelationship))
	}
	if t.NamedType != nil {
		b.WriteString("@" + *t.NamedType + " ")
	} else {
		b.WriteString(printAtom(t.Inlined))
	}
	if t.Nullable {
		b.WriteString("?")
	}
	return b.String()
}

func FuzzParseAtom(f *testing.F) {
	for _, line := range splitSchemaText(schemaText) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseAtom(text)
		if err != nil {
			return
		}
		again, err := parseAtom(printAtom(a))
		if err != nil || !reflect.DeepEqual(a, again) {
			t.Errorf("%q became %q: %v", text, printAtom(a), err)
		}
	})
}
