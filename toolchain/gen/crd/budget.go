package crd

import (
	"fmt"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"kelson.dev/toolchain/model"
)

// Budget limits the size of descriptions, which are most of a definition. Servers reject objects
// larger than about 1.5 MiB, and kubectl's client-side apply objects larger than 256 KiB.
type Budget struct {
	// PerField is the maximum number of bytes of a description. 0 means no limit, and a
	// negative number omits all descriptions.
	PerField int
	// Size is the maximum size of a definition's file in bytes. 0 means defaultSize, and a negative
	// number no limit. If a definition is larger, all descriptions are shortened to the same
	// maximum length, the longest with which the definition fits.
	Size int
}

// defaultSize is a little less than etcd's maximum request size.
const defaultSize = 1 << 20

// File returns the definition of a resource as YAML, within the budget. note is a warning if
// descriptions were shortened to fit.
func (g *Generator) File(r *model.Resource) (doc []byte, note, err error) {
	def, err := g.Definition(r)
	if err != nil {
		return nil, nil, err
	}
	budget := g.b.opts.Descriptions
	if budget.PerField != 0 {
		shorten(def, max(budget.PerField, 0))
	}
	doc, err = g.emit.definition(def)
	limit := budget.Size
	if limit == 0 {
		limit = defaultSize
	}
	if err != nil || limit < 0 || len(doc) <= limit {
		return doc, nil, err
	}
	longest := 0
	descriptions(def, func(s string) string { longest = max(longest, len(s)); return s })
	fits := func(per int) ([]byte, bool) {
		short := def.DeepCopy()
		shorten(short, per)
		out, failed := g.emit.definition(short)
		if failed != nil {
			err = failed
		}
		return out, len(out) <= limit
	}
	// Search for the smallest length with which the definition does not fit.
	per := sort.Search(longest, func(n int) bool { _, ok := fits(n); return !ok }) - 1
	if err != nil {
		return nil, nil, err
	}
	if per < 0 {
		return nil, nil, fmt.Errorf("%s: the definition has %d bytes, more than %d, even without descriptions",
			def.Name, len(doc), limit)
	}
	short, _ := fits(per)
	return short, fmt.Errorf("%s: descriptions are shortened to %d bytes, since the definition would have %d bytes, more than %d",
		def.Name, per, len(doc), limit), err
}

func shorten(def *apiextensionsv1.CustomResourceDefinition, per int) {
	descriptions(def, func(s string) string { return truncate(s, per) })
}

// descriptions applies f to every description in the schemas.
func descriptions(def *apiextensionsv1.CustomResourceDefinition, f func(string) string) {
	var visit func(*props)
	visit = func(s *props) {
		if s.Description != "" {
			s.Description = f(s.Description)
		}
		children(s, func(_ string, c *props) { visit(c) })
	}
	for _, v := range def.Spec.Versions {
		visit(v.Schema.OpenAPIV3Schema)
	}
}

// truncate shortens a text to at most n bytes as controller-gen does: after the last complete
// sentence or, if there is none, after a word, with three dots. A text that must be cut within a
// word is up to three bytes longer.
func truncate(s string, n int) string {
	if len(s) <= n {
		return s
	}
	if n == 0 {
		return ""
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	s = s[:n]
	if i := strings.LastIndexFunc(s, func(r rune) bool { return unicode.Is(unicode.STerm, r) }); i > 0 {
		_, size := utf8.DecodeRuneInString(s[i:])
		return s[:i+size]
	}
	if i := strings.LastIndexFunc(s, unicode.IsSpace); i > 0 {
		s = s[:i]
	}
	return s + "..."
}
