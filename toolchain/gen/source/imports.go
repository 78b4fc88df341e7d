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

// imports chooses unique names for the packages that the file uses.
type imports struct {
	byPath, byName map[string]string
	clause         map[string]string // import path → package clause, where known
}

func newImports(path, name string) *imports {
	// The name of the package itself is reserved, so that readers do not confuse an import with it.
	return &imports{byPath: map[string]string{}, byName: map[string]string{name: path}, clause: map[string]string{}}
}

// name returns the identifier for a package: the last element of its path, with preceding elements
// until it is unique.
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

// as returns the identifier for a package: its existing one, or the wanted one if that is free.
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

// identifier converts a path element to a part of an identifier.
func identifier(s string) string {
	s = strings.TrimLeftFunc(s, unicode.IsDigit)
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' {
			return r
		}
		return '_'
	}, s)
}

// write writes the imports that the body uses. Some names may have been requested but not used.
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

// qualifiers returns the identifiers before a selector's dot in Go code.
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
