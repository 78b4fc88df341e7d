package protobuf

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/loader"
)

// schema returns the .proto file of the package.
func (g *generator) schema(header string) []byte {
	imports := map[string]bool{}
	var body bytes.Buffer
	for _, m := range g.messages {
		comment(&body, "", m.typ.Doc)
		fmt.Fprintf(&body, "message %s {\n", m.typ.Name)
		for i, f := range m.fields {
			if i > 0 {
				body.WriteString("\n")
			}
			comment(&body, "  ", f.doc)
			label := "optional "
			if f.repeated {
				label = "repeated "
			} else if f.kind == mapped {
				label = ""
			}
			fmt.Fprintf(&body, "  %s%s %s = %d;\n", label, g.schemaType(&f.value, imports), f.name, f.number)
		}
		body.WriteString("}\n\n")
	}
	var b bytes.Buffer
	if header != "" {
		fmt.Fprintf(&b, "%s\n\n", strings.TrimSpace(header))
	}
	fmt.Fprintf(&b, "%s\n\nsyntax = \"proto2\";\n\npackage %s;\n\n", source.Generated, protoPackage(g.pkg.Path))
	for _, name := range slices.Sorted(maps.Keys(imports)) {
		fmt.Fprintf(&b, "import \"%s\";\n", name)
	}
	if len(imports) > 0 {
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "option go_package = %q;\n\n", g.pkg.Path)
	b.Write(bytes.TrimSpace(body.Bytes()))
	b.WriteByte('\n')
	return b.Bytes()
}

// protoPackage returns the protobuf package of a Go package.
func protoPackage(importPath string) string {
	return strings.NewReplacer("/", ".", "-", "_").Replace(importPath)
}

func comment(b *bytes.Buffer, indent, doc string) {
	for line := range strings.Lines(strings.TrimSpace(doc)) {
		fmt.Fprintln(b, strings.TrimRight(indent+"// "+strings.TrimRight(line, "\n"), " "))
	}
}

// schemaType returns the type of a value in a .proto file.
func (g *generator) schemaType(v *value, imports map[string]bool) string {
	switch v.kind {
	case boolean:
		return "bool"
	case fixed32:
		return "float"
	case fixed64:
		return "double"
	case text:
		return "string"
	case raw:
		return "bytes"
	case mapped:
		return "map<" + g.schemaType(v.key, imports) + ", " + g.schemaType(v.val, imports) + ">"
	case nested:
		n := v.typ.(*loader.Named)
		if n.Decl.Pkg == g.pkg.Package {
			return n.Decl.Name
		}
		imports[path.Join(n.Decl.Pkg.Path, SchemaFileName)] = true
		return "." + protoPackage(n.Decl.Pkg.Path) + "." + n.Decl.Name
	}
	switch name := v.typ.Underlying().(*loader.Basic).Name; name {
	case "int8", "int16", "rune":
		return "int32"
	case "uint8", "uint16", "byte":
		return "uint32"
	case "int":
		return "int64"
	case "uint":
		return "uint64"
	default:
		return name
	}
}
