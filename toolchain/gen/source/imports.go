package source

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"sort"
	"strings"
	"unicode"
)

// imports gives the packages that the file uses names that do not clash.
type imports struct {
	byPath, byName map[string]string
	clause         map[string]string // import path → package clause, where known
}

func newImports(path, name string) *imports {
	// The package's own name is taken, so that no reader takes an import for the package itself.
	return &imports{byPath: map[string]string{}, byName: map[string]string{name: path}, clause: map[string]string{}}
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

// as is the identifier for a package, the wanted one if it is free and the package has none yet.
func (im *imports) as(path, want string) string {
	if n, ok := im.byPath[path]; ok {
		return n
	}
	if _, taken := im.byName[want]; taken {
		return im.name(path)
	}
	im.byPath[path], im.byName[want] = want, path
	return want
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

// write writes those that the body uses: a name may have been asked for in vain.
func (im *imports) write(b *bytes.Buffer, body []byte) {
	used := qualifiers(body)
	var std, other []string
	for p, name := range im.byPath {
		if !used[name] {
			continue
		}
		if first, _, _ := strings.Cut(p, "/"); strings.Contains(first, ".") {
			other = append(other, p)
		} else {
			std = append(std, p)
		}
	}
	if len(std)+len(other) == 0 {
		return
	}
	sort.Strings(std)
	sort.Strings(other)
	b.WriteString("import (\n")
	for _, paths := range [][]string{std, other} {
		for _, p := range paths {
			if name := im.byPath[p]; name != im.clause[p] {
				fmt.Fprintf(b, "%s ", name)
			}
			fmt.Fprintf(b, "%q\n", p)
		}
		b.WriteString("\n")
	}
	b.WriteString(")\n\n")
}

// qualifiers are the identifiers in Go code that a selector begins with.
func qualifiers(code []byte) map[string]bool {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(code)), code, func(token.Position, string) {}, 0)
	used := map[string]bool{}
	before, ident := token.ILLEGAL, ""
	for {
		_, tok, lit := s.Scan()
		switch {
		case tok == token.EOF:
			return used
		case tok == token.PERIOD && ident != "":
			used[ident] = true
		}
		if ident = ""; tok == token.IDENT && before != token.PERIOD {
			ident = lit
		}
		before = tok
	}
}
