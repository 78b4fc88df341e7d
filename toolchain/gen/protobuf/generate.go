package protobuf

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/loader"
	"kelson.dev/toolchain/model"
)

// Names of the generated files, next to the types.
const (
	FileName       = "zz_generated.protobuf.go"
	LockFileName   = "zz_generated.protobuf.lock"
	SchemaFileName = "generated.proto"
)

const metaPath = "k8s.io/apimachinery/pkg/apis/meta/v1"

// Files has the generated files. All are nil if the package has no messages.
type Files struct{ Source, Schema, Lock []byte }

// Config configures Generate.
type Config struct {
	API     *model.API
	Package *model.Package
	Header  string
	Lock    []byte // the existing lock file, or nil
	// Generated reports whether the methods of another package of the API are generated too.
	Generated func(*model.Package) bool
}

// Generate generates the code, the schema and the lock file of a package. The error joins all
// errors.
func Generate(cfg Config) (Files, error) {
	pkg := cfg.Package
	g := &generator{File: source.New(pkg.Path, pkg.Name), cfg: cfg, api: cfg.API, pkg: pkg, files: map[string][]byte{}}
	numbers, err := parseLock(cfg.Lock)
	if err != nil {
		return Files{}, fmt.Errorf("%s/%s: %w", pkg.Dir, LockFileName, err)
	}
	g.numbers = numbers
	for _, t := range pkg.Types {
		if m := g.message(t); m != nil {
			g.messages = append(g.messages, m)
		}
	}
	if err := errors.Join(g.errs...); err != nil || len(g.messages) == 0 {
		return Files{}, err
	}
	sort.Slice(g.messages, func(i, j int) bool { return g.messages[i].typ.Name < g.messages[j].typ.Name })
	for _, m := range g.messages {
		if loader.FindMethod(m.typ.Type(), "Marshal") == nil {
			g.methods(m)
		}
	}
	g.Expand(helpers, nil)
	src, err := g.Bytes(source.Options{Header: cfg.Header, Constraint: source.Constraint})
	return Files{Source: src, Schema: g.schema(cfg.Header), Lock: g.numbers.bytes()}, err
}

type generator struct {
	*source.File
	cfg      Config
	api      *model.API
	pkg      *model.Package
	numbers  numbers
	messages []*message
	files    map[string][]byte // the methods of imported packages, by folder
	errs     []error
}

// message is a type with protobuf methods.
type message struct {
	typ    *model.Type
	list   bool // a named slice
	fields []*field
}

// field is a field of a message.
type field struct {
	number int
	goName string // "" in a list
	name   string // in the schema
	doc    string
	typ    loader.Type
	value
	repeated bool
}

// kind is the encoding of a value.
type kind int

const (
	varint kind = iota
	boolean
	fixed32
	fixed64
	text
	raw
	nested
	mapped
)

// value is an encoded value: that of a field, a list's element, or a map's key or value.
type value struct {
	kind     kind
	typ      loader.Type // without the pointer
	pointer  bool
	key, val *value // of a map
}

// wire returns the wire type.
func (v *value) wire() int {
	switch v.kind {
	case varint, boolean:
		return 0
	case fixed64:
		return 1
	case fixed32:
		return 5
	}
	return 2
}

// isMessage reports whether methods are generated for a type of the package.
func (g *generator) isMessage(t *model.Type) (list, ok bool) {
	if t.Generic() || t.Alias || !ast.IsExported(t.Name) {
		return false, false
	}
	if m := t.Markers.Get("protobuf"); m != nil && fmt.Sprint(m.Value) == "false" {
		return false, false
	}
	switch u := t.Type().Underlying().(type) {
	case *loader.Struct:
		return false, true
	case *loader.Slice:
		b, isBasic := u.Elem.Underlying().(*loader.Basic)
		return true, !isBasic || !b.IsByte()
	}
	return false, false
}

// message returns the message of a type, or nil if it is not one.
func (g *generator) message(t *model.Type) *message {
	list, ok := g.isMessage(t)
	if !ok {
		return nil
	}
	m := &message{typ: t, list: list}
	if list {
		f := &field{number: 1, name: "items", typ: t.Type().Underlying()}
		if err := g.classify(f); err != nil {
			g.errs = append(g.errs, loader.Errorf(t.Pos(), "protobuf: %s: %v", t.Name, err))
		}
		m.fields = []*field{f}
		return m
	}
	for _, f := range t.Fields {
		if pf := g.field(t, f); pf != nil {
			m.fields = append(m.fields, pf)
		}
	}
	g.number(m)
	return m
}

// field returns the field of a message, or nil if it is omitted. Its number is 0 if the tag has
// none.
func (g *generator) field(t *model.Type, f *model.Field) *field {
	fail := func(format string, args ...any) *field {
		g.errs = append(g.errs, loader.Errorf(f.Pos(), "protobuf: "+t.Name+"."+f.Name+": "+format, args...))
		return nil
	}
	tag, tagged := f.Tag.Lookup("protobuf")
	n, isNamed := f.Type().(*loader.Named)
	if tag == "-" || !ast.IsExported(f.Name) || !tagged && f.Embedded && isNamed && n.Is(metaPath, "TypeMeta") {
		return nil
	}
	pf := &field{goName: f.Name, name: strings.Split(f.Tag.Get("json"), ",")[0], doc: f.Doc, typ: f.Type()}
	if pf.name == "" || pf.name == "-" {
		pf.name = strings.ToLower(f.Name[:1]) + f.Name[1:]
	}
	if tagged {
		parts := strings.Split(tag, ",")
		if len(parts) < 2 {
			return fail("tag %q: must have the form type,number,…", tag)
		}
		number, err := strconv.Atoi(parts[1])
		if err != nil || number < 1 || number > maxNumber || number >= 19000 && number < 20000 {
			return fail("tag %q: %q is not a field number", tag, parts[1])
		}
		pf.number = number
		for _, p := range parts[2:] {
			if name, ok := strings.CutPrefix(p, "name="); ok {
				pf.name = name
			}
		}
	}
	if err := g.classify(pf); err != nil {
		return fail("%v; exclude it with the tag `protobuf:\"-\"`", err)
	}
	return pf
}

// classify sets how a field is encoded.
func (g *generator) classify(f *field) error {
	elem := f.typ
	if s, ok := elem.(*loader.Slice); ok && !isBytes(s) {
		f.repeated, elem = true, s.Elem
	}
	v, err := g.value(elem)
	if err != nil {
		return err
	}
	if f.repeated && (v.kind == mapped || v.pointer && v.kind != nested) {
		return fmt.Errorf("protobuf has no lists of %s", elem)
	}
	f.value = *v
	return nil
}

func isBytes(s *loader.Slice) bool {
	b, ok := s.Elem.Underlying().(*loader.Basic)
	return ok && b.IsByte()
}

// value returns how a value that is not repeated is encoded.
func (g *generator) value(t loader.Type) (*value, error) {
	v := &value{typ: t}
	if p, ok := t.(*loader.Pointer); ok {
		v.pointer, v.typ = true, p.Elem
	}
	if n, ok := v.typ.(*loader.Named); ok && g.hasMethods(n) {
		v.kind = nested
		return v, nil
	}
	switch u := v.typ.Underlying().(type) {
	case *loader.Basic:
		switch u.Name {
		case "bool":
			v.kind = boolean
		case "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64", "byte", "rune":
			v.kind = varint
		case "float32":
			v.kind = fixed32
		case "float64":
			v.kind = fixed64
		case "string":
			v.kind = text
		default:
			return nil, fmt.Errorf("protobuf cannot encode %s", t)
		}
		return v, nil
	case *loader.Slice:
		if isBytes(u) && !v.pointer {
			v.kind = raw
			return v, nil
		}
	case *loader.Map:
		key, err := g.value(u.Key)
		if err != nil {
			return nil, err
		}
		val, err := g.value(u.Elem)
		if err != nil {
			return nil, err
		}
		if v.pointer || key.pointer || key.kind != text && key.kind != varint || val.kind == mapped ||
			val.pointer && val.kind != nested {
			return nil, fmt.Errorf("protobuf cannot encode %s", t)
		}
		v.kind, v.key, v.val = mapped, key, val
		return v, nil
	case *loader.Invalid:
		return nil, u.Err
	}
	return nil, fmt.Errorf("protobuf cannot encode %s", t)
}

// hasMethods reports whether a type has protobuf methods, perhaps generated ones.
func (g *generator) hasMethods(n *loader.Named) bool {
	if len(n.Args) > 0 {
		return false
	}
	if loader.FindMethod(n, "MarshalToSizedBuffer") != nil {
		return true
	}
	for _, p := range g.api.Packages {
		if p.Package != n.Decl.Pkg {
			continue
		}
		if _, ok := g.isMessage(g.api.Type(n.Decl)); ok && (p == g.pkg || g.cfg.Generated(p)) {
			return true
		}
	}
	return n.Decl.Pkg != g.pkg.Package && g.declares(n.Decl.Pkg.Dir, n.Decl.Name)
}

// methodLine matches the declaration of the method by which messages encode others.
var methodLine = regexp.MustCompile(`(?m)^func \(\w+ \*?\w+\) MarshalToSizedBuffer\(.*\n`)

// declares reports whether a package declares the method MarshalToSizedBuffer of a type. The loader
// does not parse files such as generated.pb.go.
func (g *generator) declares(dir, name string) bool {
	methods, read := g.files[dir]
	if !read {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		g.Fail(err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			g.Fail(err)
			methods = append(methods, bytes.Join(methodLine.FindAll(data, -1), nil)...)
		}
		g.files[dir] = methods
	}
	return bytes.Contains(methods, []byte("*"+name+") ")) || bytes.Contains(methods, []byte(" "+name+") "))
}
