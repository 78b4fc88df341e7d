package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"

	"kelson.dev/toolchain/compiler"
)

// source is the part of the agent that is compiled with the operator.
//
//go:embed inside/*.go
var source embed.FS

// Program is an operator's main package.
type Program struct {
	// Dir is the folder of the main package, and Tags are its build tags, separated by commas.
	Dir, Tags string
	// Services also replaces what opens connections, so that requests of any client reach the
	// services of inside.ServicesVariable. Without it, those of http.DefaultTransport do.
	Services bool
	// Shared is the folder for what does not depend on the operator; "" means the folder cache of
	// Build. Packages that depend on the agent contain its name, so operators with equal
	// dependencies share what the go command has compiled only if they also share the folder.
	Shared string
	// Compiling, if not nil, is called with the path of each package that Build compiles.
	Compiling func(path string)
}

// folder is the folder of the agent's package in the module of an operator with a vendor folder,
// which cannot have further modules. It exists only in the overlay.
const folder = "zz_kelson_agent"

// agentModule is the module of the agent's package for other operators. Its folder, which exists
// only in the overlay, has the same name for all of them. agentMod is its go.mod.
const (
	agentModule = "kelson.dev/agent"
	agentMod    = "module " + agentModule + "\n\ngo 1.18\n"
)

// tag is the build tag of the files of package inside that are compiled in an operator only.
const tag = "kelson_agent"

// Build compiles the operator with the agent to a file. It changes nothing in the operator's
// module: the go command reads the changed files from cache, a folder that it creates. The folder
// should be the same in later calls, so that the go command finds the packages that it has compiled
// before. The error contains the output of the compiler.
func (p Program) Build(ctx context.Context, cache, binary string) error {
	err := p.build(ctx, cache, binary, true)
	if err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "Mutex") {
		// The operator passes a lock to another module, which has another type of locks.
		return p.build(ctx, cache, binary, false)
	}
	return err
}

// build does the same as Build, with the operator's locks or those of the agent.
func (p Program) build(ctx context.Context, cache, binary string, locking bool) error {
	o, err := p.overlay(ctx, cache, locking)
	if err != nil {
		return err
	}
	flags, env, err := o.write(ctx, p)
	if err != nil {
		return err
	}
	// Without checklinkname=0, the linker refuses the reference of package inside to a variable of
	// package net. With -w, it takes a third less time: debuggers are of no use in virtual time.
	args := append([]string{"build", "-v", "-tags=" + strings.TrimPrefix(p.Tags+","+tag, ","),
		"-ldflags=-w -checklinkname=0", "-o", binary}, flags...)
	_, err = p.run(ctx, env, append(args, ".")...)
	return err
}

// run runs the go command in the folder of the main package.
func (p Program) run(ctx context.Context, env []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = p.Dir, append(compiler.Environ(), env...)
	errOut := compilerOutput{compiling: p.Compiling}
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return nil, fmt.Errorf("go %s: %w: install Go, https://go.dev/dl", args[0], err)
	case err != nil:
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, strings.TrimSpace(errOut.text.String()+errOut.line))
	}
	return out, nil
}

// compilerOutput takes the standard error output of the go command: with -v, a line that is a path
// for each package that it compiles, and messages.
type compilerOutput struct {
	compiling func(path string)
	line      string // the incomplete line at the end
	text      strings.Builder
}

// Write implements io.Writer.
func (o *compilerOutput) Write(data []byte) (int, error) {
	o.line += string(data)
	for {
		line, rest, complete := strings.Cut(o.line, "\n")
		if !complete {
			return len(data), nil
		}
		o.line = rest
		switch {
		case line == "" || strings.ContainsAny(line, " \t:"):
			o.text.WriteString(line + "\n")
		case o.compiling != nil:
			o.compiling(line)
		}
	}
}

// compiled is a package of the operator, as the go command lists it.
type compiled struct {
	path, dir string
	module    string // path of its module
	root      string // folder of its module
	version   string // of its module
	files     []string
}

// packages returns the packages of the operator, without those of the standard library. The main
// package is the last one.
func (p Program) packages(ctx context.Context) ([]compiled, error) {
	const form = `{{if not .Standard}}{{.ImportPath}}	{{.Dir}}	{{with .Module}}{{.Path}}	{{.Dir}}	{{.Version}}{{else}}		{{end}}	{{join .GoFiles "	"}}{{end}}`
	out, err := p.run(ctx, nil, "list", "-deps", "-tags="+p.Tags, "-f", form, ".")
	if err != nil {
		return nil, err
	}
	var all []compiled
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(fields) > 5 {
			all = append(all, compiled{path: fields[0], dir: fields[1], module: fields[2], root: fields[3],
				version: fields[4], files: fields[5:]})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no Go files", p.Dir)
	}
	return all, nil
}

// overlay holds the files that replace others or are added, by their paths. A nil file is removed.
type overlay struct {
	cache, shared string
	files         map[string][]byte
	agent         string // import path of the agent's package
	// module is the folder of the agent's module; "" if it belongs to the module of the operator.
	module string
	// dialing also replaces what opens connections, and locking replaces the locks of module main
	// and of lockingPackages.
	dialing, locking bool
	main             string
	// modules is the module cache of the go command. Its files must not be replaced. So a module
	// there is replaced by a link to its folder, and the overlay replaces files below the link.
	modules string
	moved   map[string]string // the links, by the path of the module
	// imported has the versions of the modules in the module cache that companions import. A go.mod
	// of Go 1.16 or older need not list them.
	imported map[string]string
}

// overlay computes the overlay of a program.
func (p Program) overlay(ctx context.Context, cache string, locking bool) (*overlay, error) {
	packages, err := p.packages(ctx)
	if err != nil {
		return nil, err
	}
	last := packages[len(packages)-1]
	if last.module == "" {
		return nil, fmt.Errorf("%s is in no module", p.Dir)
	}
	modules, err := p.run(ctx, nil, "env", "GOMODCACHE")
	if err != nil {
		return nil, err
	}
	o := &overlay{cache: cache, shared: p.Shared, files: map[string][]byte{}, dialing: p.Services,
		locking: locking, main: last.module,
		modules: strings.TrimSpace(string(modules)), moved: map[string]string{}, imported: map[string]string{}}
	if o.shared == "" {
		o.shared = cache
	}
	agent := filepath.Join(last.root, folder)
	if o.vendored(packages) {
		o.agent = path.Join(last.module, folder)
	} else {
		agent = filepath.Join(o.shared, "agent")
		o.agent, o.module = agentModule, agent
		o.files[filepath.Join(agent, "go.mod")] = []byte(agentMod)
	}
	sources, err := fs.Glob(source, "inside/*.go")
	if err != nil {
		return nil, err
	}
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		data, err := source.ReadFile(name)
		if err != nil {
			return nil, err
		}
		o.files[filepath.Join(agent, path.Base(name))] = data
	}
	for i, c := range packages {
		if err := o.change(c, i == len(packages)-1); err != nil {
			return nil, fmt.Errorf("prepare %s: %w", c.path, err)
		}
	}
	for _, c := range packages {
		code, ok := companions[c.path]
		if !ok && o.dialing {
			code, ok = dialingCompanions[c.path]
		}
		if ok {
			name := "zz_kelson_" + path.Base(c.path) + ".go"
			o.files[filepath.Join(last.dir, name)] = []byte(strings.ReplaceAll(code, "KELSON", strconv.Quote(o.agent)))
			if o.inCache(c) {
				o.imported[c.module] = c.version
			}
		}
	}
	return o, nil
}

// unchanged lists prefixes of modules that are not searched for calls: operators use other
// functions of them, and many packages depend on them. The go command compiles these packages again
// if a changed one is below them: gnostic can run programs for extensions of OpenAPI, which no
// operator does, and all of client-go is above it.
var unchanged = []string{"k8s.io/", "golang.org/x/", "google.golang.org/", "github.com/prometheus/",
	"go.opentelemetry.io/", "github.com/google/gnostic", "github.com/googleapis/gnostic"}

// change adds the changes of a package to the overlay.
func (o *overlay) change(c compiled, isMain bool) error {
	if stub, ok := stubs[c.path]; ok {
		dir, err := o.writable(c)
		if err != nil {
			return err
		}
		for _, name := range c.files {
			o.files[filepath.Join(dir, name)] = nil
		}
		o.files[filepath.Join(dir, "zz_kelson.go")] = []byte(stub)
		return nil
	}
	hooked := hooks[c.path]
	if isMain {
		hooked = hook{[]string{"main"}, mainSource}
	}
	dials := o.dialing && c.path == grpcTransport
	if hooked.source == "" && !dials && slices.ContainsFunc(unchanged, func(prefix string) bool {
		return strings.HasPrefix(c.module, prefix)
	}) {
		return nil
	}
	locking := o.locking && (c.module == o.main || slices.Contains(lockingPackages, c.path))
	found := 0
	for _, name := range c.files {
		data, err := os.ReadFile(filepath.Join(c.dir, name))
		if err != nil {
			return err
		}
		if len(hooked.functions) == 0 && !mayCall(data) && !(o.dialing && mayDial(data)) &&
			!(locking && mayLock(data)) {
			continue
		}
		changed, n, err := o.rewrite(name, data, hooked.functions, locking)
		if err != nil {
			return err
		}
		if found += n; changed == nil {
			continue
		}
		dir, err := o.writable(c)
		if err != nil {
			return err
		}
		o.files[filepath.Join(dir, name)] = changed
	}
	if found == 0 || hooked.source == "" {
		return nil // another version does not have the function
	}
	dir, err := o.writable(c)
	if err != nil {
		return err
	}
	o.files[filepath.Join(dir, "zz_kelson.go")] = []byte(strings.ReplaceAll(hooked.source, "KELSON",
		strconv.Quote(o.agent)))
	return nil
}

// vendored reports whether the operator's dependencies are in a vendor folder. The go command then
// refuses a go.mod with other modules than those in that folder.
func (o *overlay) vendored(packages []compiled) bool {
	if slices.ContainsFunc(packages, func(c compiled) bool {
		return strings.HasSuffix(filepath.ToSlash(c.dir), "/vendor/"+c.path)
	}) {
		return true
	}
	_, err := os.Stat(filepath.Join(packages[len(packages)-1].root, "vendor", "modules.txt"))
	return err == nil && !slices.ContainsFunc(packages, o.inCache)
}

// inCache reports whether a package is in the module cache.
func (o *overlay) inCache(c compiled) bool {
	below, err := filepath.Rel(o.modules, c.dir)
	return err == nil && filepath.IsLocal(below)
}

// writable returns a folder of a package whose files the overlay can replace.
func (o *overlay) writable(c compiled) (string, error) {
	if !o.inCache(c) {
		return c.dir, nil
	}
	link := o.moved[c.module]
	if link == "" {
		// Operators with another module cache have other links.
		sum := sha256.Sum256([]byte(o.modules))
		folder := filepath.Join(o.shared, "modules", fmt.Sprintf("%x", sum[:4]))
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return "", err
		}
		link = filepath.Join(folder, strings.NewReplacer("/", "+", "\\", "+", ":",
			"+").Replace(strings.TrimPrefix(c.root, o.modules)))
		if to, err := os.Readlink(link); err != nil || to != c.root {
			// The link may exist, and another build may create it.
			_ = os.Remove(link)
			if err := os.Symlink(c.root, link); err != nil && !errors.Is(err, fs.ErrExist) {
				return "", err
			}
		}
		if _, err := os.Stat(filepath.Join(c.root, "go.mod")); errors.Is(err, fs.ErrNotExist) {
			// The module is older than modules. A replacement must have the file.
			o.files[filepath.Join(link, "go.mod")] = []byte("module " + c.module + "\n")
		}
		o.moved[c.module] = link
	}
	below, err := filepath.Rel(c.root, c.dir)
	return filepath.Join(link, below), err
}

// hook replaces functions of a package: the originals get the prefix kelsonOriginal, and source,
// with the import path of the agent instead of KELSON, has the new ones.
type hook struct {
	functions []string
	source    string
}

const original = "kelsonOriginal_"

const mainSource = `package main

import kelson_agent KELSON

func main() { kelson_agent.Main(` + original + `main) }
`

// edit replaces a part of a file.
type edit struct {
	from, to int
	text     string
}

// rewrite renames functions of a file, and replaces calls that listen and, if locking is true,
// locks. It returns nil if nothing changes, and the number of renamed functions.
func (o *overlay) rewrite(name string, data []byte, renamed []string, locking bool) ([]byte, int, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, 0, err
	}
	at := func(p token.Pos) int { return files.Position(p).Offset }
	var edits []edit
	found := 0
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && slices.Contains(renamed, f.Name.Name) {
			edits = append(edits, edit{at(f.Name.Pos()), at(f.Name.End()), original + f.Name.Name})
			found++
		}
	}
	calls := replaceCalls(file, at, o.dialing, locking)
	edits = append(edits, calls.edits...)
	if len(edits) == 0 {
		return nil, 0, nil
	}
	for _, added := range []struct{ name, path string }{{agentName, o.agent}, {restName, rest}} {
		if calls.imports[added.name] {
			// After the package clause, on the same line: the numbers of lines stay.
			edits = append(edits, edit{at(file.Name.End()), at(file.Name.End()),
				"; import " + added.name + " " + strconv.Quote(added.path)})
		}
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return a.from - b.from })
	var b bytes.Buffer
	done := 0
	for _, e := range edits {
		b.Write(data[done:e.from])
		b.WriteString(e.text)
		done = e.to
	}
	b.Write(data[done:])
	for _, name := range calls.keep {
		fmt.Fprintf(&b, "\n%s // keeps the import in use", name)
	}
	b.WriteByte('\n')
	return b.Bytes(), found, nil
}

// write writes the overlay to its folder, and returns the flags of go build and the variables of
// its environment.
func (o *overlay) write(ctx context.Context, p Program) (flags, env []string, err error) {
	if err := os.MkdirAll(o.cache, 0o700); err != nil {
		return nil, nil, err
	}
	replace := map[string]string{}
	for name, data := range o.files {
		if data == nil {
			replace[name] = ""
			continue
		}
		sum := sha256.Sum256(append([]byte(name+"\x00"), data...))
		to := filepath.Join(o.cache, fmt.Sprintf("%x-%s", sum[:8], filepath.Base(name)))
		if err := put(to, data); err != nil {
			return nil, nil, err
		}
		replace[name] = to
	}
	description, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return nil, nil, err
	}
	file := filepath.Join(o.cache, "overlay.json")
	flags = []string{"-overlay=" + file}
	if err := put(file, description); err != nil || o.module == "" && len(o.moved)+len(o.imported) == 0 {
		return flags, nil, err
	}
	more, env, err := o.replaceModules(ctx, p)
	return append(flags, more...), env, err
}

// replaceModules writes copies of the go.mod or go.work in use which have the agent's module, and
// replace the modules that were moved. The go.mod also requires the modules that companions import.
func (o *overlay) replaceModules(ctx context.Context, p Program) (flags, env []string, err error) {
	out, err := p.run(ctx, nil, "env", "GOWORK", "GOMOD")
	if err != nil {
		return nil, nil, err
	}
	work, mod, _ := strings.Cut(strings.TrimRight(string(out), "\n"), "\n")
	inUse := mod
	if work != "" && work != "off" {
		inUse = work
	}
	data, err := os.ReadFile(inUse)
	if err != nil {
		return nil, nil, err
	}
	dir := filepath.Dir(inUse)
	sums := strings.TrimSuffix(mod, ".mod") + ".sum"
	if inUse == work {
		sums = work + ".sum"
		w, err := modfile.ParseWork(work, data, nil)
		if err != nil {
			return nil, nil, err
		}
		for _, u := range slices.Clone(w.Use) { // relative to the folder of the copy
			if used := *u; !filepath.IsAbs(used.Path) { // DropUse clears *u
				if err := errors.Join(w.DropUse(used.Path), w.AddUse(filepath.Join(dir, used.Path), used.ModulePath)); err != nil {
					return nil, nil, err
				}
			}
		}
		for _, r := range slices.Clone(w.Replace) {
			if replaced := *r; o.moved[replaced.Old.Path] != "" {
				err = errors.Join(err, w.DropReplace(replaced.Old.Path, replaced.Old.Version))
			} else if replaced.New.Version == "" && !filepath.IsAbs(replaced.New.Path) {
				err = errors.Join(err, w.AddReplace(replaced.Old.Path, replaced.Old.Version,
					filepath.Join(dir, replaced.New.Path), ""))
			}
		}
		for module, link := range o.moved {
			err = errors.Join(err, w.AddReplace(module, "", link, ""))
		}
		if o.module != "" {
			err = errors.Join(err, w.AddUse(o.module, agentModule))
		}
		if err != nil {
			return nil, nil, err
		}
		w.Cleanup()
		data = modfile.Format(w.Syntax)
	} else {
		m, err := modfile.Parse(mod, data, nil)
		if err != nil {
			return nil, nil, err
		}
		for _, r := range slices.Clone(m.Replace) {
			if o.moved[r.Old.Path] != "" {
				err = errors.Join(err, m.DropReplace(r.Old.Path, r.Old.Version))
			}
		}
		for module, link := range o.moved {
			err = errors.Join(err, m.AddReplace(module, "", link, ""))
		}
		if o.module != "" {
			err = errors.Join(err, m.AddRequire(agentModule, "v0.0.0"), m.AddReplace(agentModule, "", o.module, ""))
		}
		for module, version := range o.imported {
			if !slices.ContainsFunc(m.Require, func(r *modfile.Require) bool { return r.Mod.Path == module }) {
				err = errors.Join(err, m.AddRequire(module, version))
			}
		}
		if err != nil {
			return nil, nil, err
		}
		m.Cleanup()
		if data, err = m.Format(); err != nil {
			return nil, nil, err
		}
	}
	copied := filepath.Join(o.cache, "kelson.mod")
	if inUse == work {
		copied = filepath.Join(o.cache, "go.work")
	}
	if err := put(copied, data); err != nil {
		return nil, nil, err
	}
	if data, err = os.ReadFile(sums); err == nil {
		to := strings.TrimSuffix(copied, ".mod") + ".sum"
		err = put(to, data)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	if inUse == work {
		return nil, []string{"GOWORK=" + copied}, nil
	}
	return []string{"-modfile=" + copied}, nil, nil
}

// put writes a file unless it has the content.
func put(file string, data []byte) error {
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return os.WriteFile(file, data, 0o600)
}
