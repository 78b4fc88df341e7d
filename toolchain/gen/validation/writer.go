package validation

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"kelson.dev/toolchain/gen/source"
	"kelson.dev/toolchain/loader"
)

// writer is the file of one package. It writes calls as Go source, with the names that the file
// imports or that other files declare. It has no markers.
type writer struct {
	*source.File
	cfg       Config
	variables []string // in order
	values    map[string]string
	files     map[string][]byte // by directory, the functions that it declares
}

func newWriter(cfg Config) *writer {
	path, name := cfg.Package.Path, cfg.Package.Name
	if cfg.Output != nil {
		path, name = cfg.Output(cfg.Package.Package)
	}
	w := &writer{File: source.New(path, name), cfg: cfg, values: map[string]string{}, files: map[string][]byte{}}
	w.reserve("context", "field", "operation", "safe", "validate", "equality", "sets", "runtime")
	return w
}

// reserve chooses names of imports that the package does not declare itself.
func (w *writer) reserve(aliases ...string) {
	for _, alias := range aliases {
		p, name := source.Packages[alias], alias
		for w.cfg.Package.Declares(name) {
			name += "_"
		}
		w.Use(p.Path, p.Clause, name)
	}
}

var notIdentifier = regexp.MustCompile(`[^A-Za-z0-9_]+`)

// variable declares a variable of the package and returns its name.
func (w *writer) variable(name, value string) string {
	name = w.cfg.Prefix + strings.TrimRight(notIdentifier.ReplaceAllString(name, "_"), "_")
	for w.cfg.Package.Declares(name) || w.values[name] != "" && w.values[name] != value {
		name += "_"
	}
	if w.values[name] == "" {
		w.variables = append(w.variables, name)
	}
	w.values[name] = value
	return name
}

// lib returns a call of a function of the package validate.
func (w *writer) lib(fn string, args ...string) call {
	return call{fn: w.Expanded("$validate."+fn, nil), args: args, extensible: true}
}

// expression returns a call as Go source.
func (w *writer) expression(c call) string {
	s := c.fn + "(ctx, op, fldPath, obj, oldObj"
	for _, a := range c.args {
		s += ", " + a
	}
	s += ")"
	if c.level != "" {
		s += ".Mark" + c.level + "()"
	}
	if c.ifSet {
		return w.Expanded("func() $field.ErrorList {\nif obj == nil {\nreturn nil\n}\nreturn ", nil) + s + "\n}()"
	}
	return s
}

// function returns a call as a function of a value: the called function itself if it is a generated
// one that needs no other arguments.
func (w *writer) function(c call, t loader.Type) string {
	if len(c.args) == 0 && c.level == "" && !c.extensible {
		return c.fn
	}
	return w.signature(w.nilForm(t), "") + " { return " + w.expression(c) + " }"
}

// signature returns the head of a function literal.
func (w *writer) signature(value, result string) string {
	list := w.Expanded("$field.ErrorList", nil)
	if result != "" {
		list = "(" + result + " " + list + ")"
	}
	return w.Expanded("func(ctx $context.Context, op $operation.Operation, fldPath *$field.Path, obj, oldObj ", nil) +
		value + ") " + list
}

// equal returns the function that compares two values of a type.
func (w *writer) equal(t loader.Type) string {
	if isComparable(valueType(t)) {
		return w.Expanded("$validate.DirectEqual", nil)
	}
	return w.Expanded("$validate.SemanticDeepEqual", nil)
}

// nilForm returns the type by which validation functions get a value: itself if it can be nil, or
// else a pointer to it.
func (w *writer) nilForm(t loader.Type) string {
	if nilable(t) {
		return w.Type(t)
	}
	return "*" + w.Type(t)
}

// statements returns the calls for one value as Go source. It uses the variables obj, oldObj and
// errs. A call of a cohort can end only the validation of its cohort.
func (w *writer) statements(calls []call) string {
	var cohorts []string
	for _, c := range calls {
		if c.cohort == "" && !slices.Contains(cohorts, "") {
			cohorts = slices.Insert(cohorts, 0, "")
		} else if !slices.Contains(cohorts, c.cohort) {
			cohorts = append(cohorts, c.cohort)
		}
	}
	var b strings.Builder
	for _, cohort := range cohorts {
		var first, later []call
		for _, c := range calls {
			switch {
			case c.cohort != cohort:
			case c.short:
				first = append(first, c)
			default:
				later = append(later, c)
			}
		}
		end := "return errs"
		if cohort != "" {
			end = "return"
			fmt.Fprintf(&b, "func() { // %s\n", cohort)
		}
		b.WriteString(w.ending(first, end))
		for _, c := range later {
			comments(&b, c)
			if c.silent {
				fmt.Fprintf(&b, "%s\n", w.expression(c))
			} else {
				fmt.Fprintf(&b, "errs = append(errs, %s...)\n", w.expression(c))
			}
		}
		if cohort != "" {
			b.WriteString("}()\n")
		}
	}
	return b.String()
}

// ending returns the calls that can end the validation of a value. All of them run, even if the
// first one fails.
func (w *writer) ending(calls []call, end string) string {
	var b strings.Builder
	if len(calls) > 1 {
		b.WriteString("done := false\n")
	}
	for _, c := range calls {
		comments(&b, c)
		stop := end
		if len(calls) > 1 {
			stop = "done = true"
		}
		if c.silent {
			fmt.Fprintf(&b, "if len(%s) > 0 {\n%s\n}\n", w.expression(c), stop)
		} else {
			fmt.Fprintf(&b, "if e := %s.MarkShortCircuit(); len(e) > 0 {\nerrs = append(errs, e...)\n%s\n}\n",
				w.expression(c), stop)
		}
	}
	if len(calls) > 1 {
		fmt.Fprintf(&b, "if done {\n%s\n}\n", end)
	}
	return b.String()
}

// together combines calls into one function of a value.
func (w *writer) together(calls []call, value string) string {
	return w.signature(value, "errs") + " {\n" + w.statements(calls) + "return errs\n}"
}

func comments(b *strings.Builder, c call) {
	for _, line := range c.comments {
		fmt.Fprintf(b, "// %s\n", line)
	}
}

// functionName returns the function of a type.
func (w *writer) functionName(d *loader.Decl) string {
	name := functionPrefix + d.Name
	switch {
	case d.Pkg == w.cfg.Package.Package:
		return w.cfg.Prefix + name
	case w.cfg.Generated(d.Pkg):
		path, pkg := d.Pkg.Path, d.Pkg.Name
		if w.cfg.Output != nil {
			path, pkg = w.cfg.Output(d.Pkg)
		}
		return w.Qualified(path, pkg, w.cfg.Prefix+name)
	}
	path := w.declared(d)
	return w.Qualified(path, path[strings.LastIndexByte(path, '/')+1:], name)
}

const functionPrefix = "Validate_"

var functionLine = regexp.MustCompile(`(?m)^func Validate_\w+\(`)

// declared returns the import path of the package with the function of a type of another project:
// the type's own package or its subdirectory validation. It returns "" if there is none.
func (w *writer) declared(d *loader.Decl) string {
	if !strings.Contains(d.Pkg.Path, ".") {
		return "" // the standard library
	}
	for _, sub := range []string{"", "/validation"} {
		dir := filepath.Join(d.Pkg.Dir, filepath.FromSlash(sub))
		lines, read := w.files[dir]
		if !read {
			for _, pattern := range []string{"zz_generated*.go", "generated*.go"} {
				files, _ := filepath.Glob(filepath.Join(dir, pattern))
				for _, file := range files {
					data, err := os.ReadFile(file)
					w.Fail(err)
					lines = append(lines, bytes.Join(functionLine.FindAll(data, -1), nil)...)
				}
			}
			w.files[dir] = lines
		}
		if bytes.Contains(lines, fmt.Appendf(nil, "func %s%s(", functionPrefix, d.Name)) {
			return d.Pkg.Path + sub
		}
	}
	return ""
}
