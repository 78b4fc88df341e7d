package marker

import (
	"errors"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"

	"kelson.dev/toolchain/loader"
)

// Set holds the markers of a package.
type Set struct {
	Package Markers
	nodes   map[ast.Node]Markers
}

// Type returns the markers of a type.
func (s *Set) Type(d *loader.Decl) Markers { return s.nodes[d.Spec] }

// Field returns the markers of a field.
func (s *Set) Field(f *loader.Field) Markers { return s.nodes[f.Syntax] }

// Collect parses the markers in all files of a package. If strict, it returns an error that joins
// all unknown, misplaced and malformed markers; otherwise it ignores them.
func Collect(pkg *loader.Package, reg *Registry, strict bool) (*Set, error) {
	set := &Set{nodes: map[ast.Node]Markers{}}
	var errs []error
	for _, f := range pkg.Files {
		c := &collector{reg: reg, set: set, file: f}
		c.collect()
		errs = append(errs, c.errs...)
	}
	if !strict {
		errs = nil
	}
	return set, errors.Join(errs...)
}

// IsMarker reports whether a comment line has the form of a marker. Such lines are not
// documentation.
func IsMarker(comment string) bool {
	text, ok := strings.CutPrefix(comment, "//")
	return ok && strings.HasPrefix(strings.TrimSpace(text), "+")
}

var (
	markerText = regexp.MustCompile(`^//[ \t]*\+([A-Za-z].*?)[ \t\r]*$`)
	// blockText and spacedText match lines that look like markers but have no effect.
	blockText  = regexp.MustCompile(`(?m)^(?:/\*)?[ \t*]*\+([A-Za-z].*?)[ \t\r]*(?:\*/)?$`)
	spacedText = regexp.MustCompile(`^//[ \t]*\+[ \t]+([A-Za-z][^ \t]*:.*?)[ \t\r]*$`)
)

type collector struct {
	reg  *Registry
	set  *Set
	file *loader.File
	errs []error
}

// spot is a declaration that comments can belong to.
type spot struct {
	pos  token.Pos
	node ast.Node // *ast.TypeSpec or *ast.Field; nil for other declarations
	in   ast.Node // the struct or parenthesised declaration around it; nil at the top level
}

// layout holds the positions in a file that determine which declaration a comment belongs to.
type layout struct {
	spots    []spot                     // by position
	docs     map[*ast.CommentGroup]spot // doc comments
	trailing map[*ast.CommentGroup]bool // comments after a declaration on the same line
	areas    []ast.Node                 // declarations, structs and fields, outer before inner
	skip     []ast.Node                 // nodes whose comments belong to no type or field
}

func (c *collector) collect() {
	syntax := c.file.Syntax
	var l *layout
	for i, g := range syntax.Comments {
		c.malformed(g)
		if !slices.ContainsFunc(g.List, func(cm *ast.Comment) bool { return markerText.MatchString(cm.Text) }) {
			continue
		}
		if l == nil {
			l = newLayout(syntax)
		}
		c.group(l, g, syntax.Comments[i+1:])
	}
}

func newLayout(f *ast.File) *layout {
	l := &layout{docs: map[*ast.CommentGroup]spot{}, trailing: map[*ast.CommentGroup]bool{}}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			l.add(spot{pos: d.Pos()}, d.Doc, nil)
			l.skip = append(l.skip, d)
		case *ast.GenDecl:
			l.gen(d)
		}
	}
	slices.SortStableFunc(l.spots, func(a, b spot) int { return int(a.pos - b.pos) })
	return l
}

func (l *layout) gen(d *ast.GenDecl) {
	if d.Tok == token.TYPE && !d.Lparen.IsValid() {
		spec := d.Specs[0].(*ast.TypeSpec)
		l.add(spot{pos: d.Pos(), node: spec}, d.Doc, nil)
		l.areas = append(l.areas, d)
		l.typeSpec(spec, spot{pos: spec.Pos(), node: spec})
		return
	}
	l.add(spot{pos: d.Pos()}, d.Doc, nil)
	l.areas = append(l.areas, d)
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			at := spot{pos: s.Pos(), node: s, in: d}
			l.add(at, s.Doc, nil)
			l.areas = append(l.areas, s)
			l.typeSpec(s, at)
		case *ast.ValueSpec:
			l.add(spot{pos: s.Pos(), in: d}, s.Doc, s.Comment)
			l.skip = append(l.skip, s)
		case *ast.ImportSpec:
			l.add(spot{pos: s.Pos(), in: d}, s.Doc, s.Comment)
		}
	}
}

func (l *layout) typeSpec(s *ast.TypeSpec, at spot) {
	if s.Doc != nil {
		l.docs[s.Doc] = at
	}
	if s.Comment != nil {
		l.trailing[s.Comment] = true
	}
	ast.Inspect(s.Type, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.InterfaceType, *ast.FuncType:
			l.skip = append(l.skip, n)
			return false
		case *ast.StructType:
			l.areas = append(l.areas, n)
			for _, f := range n.Fields.List {
				l.add(spot{pos: f.Pos(), node: f, in: n}, f.Doc, f.Comment)
				l.areas = append(l.areas, f)
			}
		}
		return true
	})
}

func (l *layout) add(s spot, doc, trailing *ast.CommentGroup) {
	l.spots = append(l.spots, s)
	if doc != nil {
		l.docs[doc] = s
	}
	if trailing != nil {
		l.trailing[trailing] = true
	}
}

// group assigns the markers of one comment group to their declaration. later are the groups after
// it.
func (c *collector) group(l *layout, g *ast.CommentGroup, later []*ast.CommentGroup) {
	for _, n := range l.skip {
		if n.Pos() <= g.Pos() && g.End() <= n.End() {
			c.misplaced(g, "inside a function, an interface or a value")
			return
		}
	}
	if g.End() < c.file.Syntax.Package {
		c.take(g, nil, OnPackage)
		return
	}
	if l.trailing[g] {
		c.misplaced(g, "at the end of a line, not in the comment above")
		return
	}
	if s, ok := l.docs[g]; ok {
		if s.node == nil {
			c.misplaced(g, "in a doc comment that belongs to no type or field")
			return
		}
		c.take(g, s.node, target(s.node))
		return
	}
	area := l.area(g)
	next := slices.IndexFunc(l.spots, func(s spot) bool { return s.pos > g.End() && s.in == area })
	switch {
	case next < 0 || l.spots[next].node == nil || !c.nearest(l, l.spots[next], later):
		if area != nil {
			c.misplaced(g, "above no type or field")
			return
		}
		c.take(g, nil, OnPackage)
	default:
		s := l.spots[next]
		c.take(g, s.node, target(s.node))
	}
}

func target(n ast.Node) Target {
	if _, ok := n.(*ast.Field); ok {
		return OnField
	}
	return OnType
}

// area returns the innermost declaration, struct or field around a comment.
func (l *layout) area(g *ast.CommentGroup) ast.Node {
	var in ast.Node
	for _, a := range l.areas {
		if a.Pos() <= g.Pos() && g.End() <= a.End() {
			in = a
		}
	}
	return in
}

// nearest reports whether a comment is the last before the spot, except for the spot's doc comment.
func (c *collector) nearest(l *layout, s spot, later []*ast.CommentGroup) bool {
	for _, g := range later {
		if g.Pos() > s.pos {
			break
		}
		if own, ok := l.docs[g]; !ok || own.node != s.node {
			return false
		}
	}
	return true
}

// take parses the markers of a group for a node, or for the package if node is nil. In a comment
// above a type that is not its doc comment, a marker that only packages can have belongs to the
// package.
func (c *collector) take(g *ast.CommentGroup, node ast.Node, on Target) {
	for _, cm := range g.List {
		m := markerText.FindStringSubmatch(cm.Text)
		if m == nil {
			continue
		}
		node, on := node, on
		if on == OnType && !c.isDoc(g, node) && c.onlyPackage(m[1]) {
			node, on = nil, OnPackage
		}
		pos := c.file.Position(cm.Pos() + token.Pos(strings.IndexByte(cm.Text, '+')))
		mk, err := c.reg.Parse(m[1], on)
		if err != nil {
			c.errs = append(c.errs, &loader.Error{Pos: pos, Msg: err.Error()})
		}
		if mk == nil {
			continue
		}
		mk.Pos = pos
		if node == nil {
			c.set.Package = append(c.set.Package, mk)
		} else {
			c.set.nodes[node] = append(c.set.nodes[node], mk)
		}
	}
}

func (c *collector) isDoc(g *ast.CommentGroup, node ast.Node) bool {
	spec, ok := node.(*ast.TypeSpec)
	if !ok {
		return true
	}
	if spec.Doc == g {
		return true
	}
	for _, d := range c.file.Syntax.Decls {
		if gen, ok := d.(*ast.GenDecl); ok && gen.Doc == g {
			return true
		}
	}
	return false
}

func (c *collector) onlyPackage(text string) bool {
	name, _, _ := split(text)
	onType, _, _ := c.reg.lookup(name, OnType)
	onPackage, _, _ := c.reg.lookup(name, OnPackage)
	return onType == nil && onPackage != nil
}

// malformed reports lines that look like markers but are in /* */ comments, or have a space after
// the plus sign.
func (c *collector) malformed(g *ast.CommentGroup) {
	for _, cm := range g.List {
		if strings.HasPrefix(cm.Text, "/*") {
			for _, at := range blockText.FindAllStringSubmatchIndex(cm.Text, -1) {
				c.ineffective(cm, cm.Text[at[2]:at[3]], at[2]-1, "in a /* */ comment; only // comments have markers")
			}
		} else if at := spacedText.FindStringSubmatchIndex(cm.Text); at != nil {
			c.ineffective(cm, cm.Text[at[2]:at[3]], strings.IndexByte(cm.Text, '+'),
				"not a marker with a space after the plus sign")
		}
	}
}

// misplaced reports the markers of a group that belong to no declaration. It ignores unknown names,
// because any comment may begin with a plus sign.
func (c *collector) misplaced(g *ast.CommentGroup, where string) {
	for _, cm := range g.List {
		m := markerText.FindStringSubmatch(cm.Text)
		if m == nil {
			continue
		}
		c.ineffective(cm, m[1], strings.IndexByte(cm.Text, '+'), where)
	}
}

// ineffective reports the marker at an offset in a comment if its name is defined.
func (c *collector) ineffective(cm *ast.Comment, text string, offset int, where string) {
	name, _, _ := split(text)
	name, _, _ = strings.Cut(name, " ")
	def, _, _ := c.reg.lookup(name, Anywhere)
	if def == nil || def.Inert {
		return
	}
	advice := ""
	if def.On&OnPackage != 0 && strings.HasPrefix(where, "in a doc") {
		advice = "; leave an empty line below it"
	}
	pos := c.file.Position(cm.Pos() + token.Pos(offset))
	c.errs = append(c.errs, loader.Errorf(pos, "misplaced marker +%s: it belongs on %s, but is %s%s", def.Name, def.On,
		where, advice))
}
