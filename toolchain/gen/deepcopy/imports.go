package deepcopy

import (
	"bytes"
	"fmt"
	"go/types"
	"sort"
	"strings"
	"unicode"

	"kelson.dev/toolchain/loader"
)

// imports gives the packages that the generated file uses names that do not clash.
type imports struct {
	byPath, byName map[string]string
	names          map[string]string // import path → package clause, where known
}

func newImports(pkg *loader.Package) *imports {
	// The package's own name is taken, so that no reader takes an import for the package itself.
	return &imports{byPath: map[string]string{}, byName: map[string]string{pkg.Name: pkg.Path}, names: map[string]string{runtimePath: "runtime"}}
}

// name is the identifier for a package: the last element of its path, with as many elements before it as make it unique.
func (im *imports) name(path string) string {
	if n, ok := im.byPath[path]; ok {
		return n
	}
	segments := strings.Split(path, "/")
	name := ""
	for i := len(segments) - 1; i >= 0; i-- {
		name = identifier(segments[i]) + name
		if _, taken := im.byName[name]; !taken && name != "" {
			break
		}
	}
	for im.byName[name] != "" || name == "" {
		name += "x"
	}
	im.byPath[path], im.byName[name] = name, path
	return name
}

// identifier makes a path element part of an identifier.
func identifier(s string) string {
	s = strings.TrimLeftFunc(s, unicode.IsDigit)
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' {
			return r
		}
		return '_'
	}, s)
}

func (im *imports) write(b *bytes.Buffer) {
	if len(im.byPath) == 0 {
		return
	}
	paths := make([]string, 0, len(im.byPath))
	for p := range im.byPath {
		paths = append(paths, p)
	}
	sort.Strings(paths)
	b.WriteString("import (\n")
	for _, p := range paths {
		if name := im.byPath[p]; name != im.names[p] {
			fmt.Fprintf(b, "%s ", name)
		}
		fmt.Fprintf(b, "%q\n", p)
	}
	b.WriteString(")\n\n")
}

// syntax is how a type is written in the generated file; its packages are imported.
func (g *generator) syntax(t loader.Type) string {
	switch t := t.(type) {
	case *loader.Basic:
		return t.Name
	case *loader.Pointer:
		return "*" + g.syntax(t.Elem)
	case *loader.Slice:
		return "[]" + g.syntax(t.Elem)
	case *loader.Array:
		return "[" + t.Len + "]" + g.syntax(t.Elem)
	case *loader.Map:
		return "map[" + g.syntax(t.Key) + "]" + g.syntax(t.Elem)
	case *loader.Named:
		name := t.Decl.Name
		if pkg := t.Decl.Pkg; pkg.Path != g.pkg.Path {
			g.imports.names[pkg.Path] = pkg.Name
			name = g.imports.name(pkg.Path) + "." + name
		}
		if len(t.Args) > 0 {
			args := make([]string, len(t.Args))
			for i, a := range t.Args {
				args[i] = g.syntax(a)
			}
			name += "[" + strings.Join(args, ", ") + "]"
		}
		return name
	case *loader.Struct:
		// Only structs written in this package are ever spelled out, so the source's own names are right.
		return types.ExprString(t.Syntax)
	case *loader.Interface:
		if t.Syntax == nil {
			return "any"
		}
		return types.ExprString(t.Syntax)
	}
	g.fail(t, t.String())
	return "any"
}
