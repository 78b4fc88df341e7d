package adopt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"kelson.dev/toolchain"
)

// File is the name of a project's own list of calls, which replaces those in its Makefile:
//
//	controllerGen:
//	- dir: api                       # relative to the project; default: the project's folder
//	  args: ["crd:maxDescLen=0", "paths=./...", "output:crd:dir=../config/crd"]
//
// An empty list means that nothing is adopted.
const File = ".kelson.yaml"

// Call is one run of controller-gen.
type Call struct {
	// Source is the file and line of the call, relative to the project.
	Source string
	// Dir is the absolute path of the folder in which it runs.
	Dir string
	// Args are its arguments.
	Args []string
}

// Plan describes how a project runs controller-gen.
type Plan struct {
	Calls []Call
	// Removed are absolute paths of files that the Makefile removes after it generated them.
	Removed []string
	// Moved lists the files that the Makefile moves after it generated them.
	Moved []toolchain.Move
	// Unknown lists the calls with variables whose values Find cannot determine.
	Unknown []Call
}

// Find returns the calls of controller-gen in a project's folder.
func Find(dir string) (Plan, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Plan{}, err
	}
	own, err := ownCalls(dir)
	if own != nil || err != nil {
		return Plan{Calls: own}, err
	}
	f := &finder{dir: dir, seen: map[string]bool{}, read: map[string]bool{}}
	for _, find := range []func() error{f.makefiles, f.taskfile, f.scripts, f.directives} {
		if err := find(); err != nil {
			return Plan{}, fmt.Errorf("find the calls of controller-gen: %w", err)
		}
		if len(f.plan.Calls) > 0 {
			break
		}
	}
	return f.plan, nil
}

// ownCalls returns the calls in File, nil if the project has no such file.
func ownCalls(dir string) ([]Call, error) {
	data, err := os.ReadFile(filepath.Join(dir, File))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var config struct {
		ControllerGen []struct {
			Dir  string   `json:"dir"`
			Args []string `json:"args"`
		} `json:"controllerGen"`
	}
	if err := yaml.UnmarshalStrict(data, &config); err != nil {
		return nil, fmt.Errorf("read %s: %w", File, err)
	}
	calls := []Call{}
	for _, c := range config.ControllerGen {
		call := Call{Source: File, Dir: filepath.Join(dir, filepath.FromSlash(c.Dir)), Args: c.Args}
		if _, err := call.Arguments(); err != nil {
			return nil, fmt.Errorf("read %s: %w", File, err)
		}
		calls = append(calls, call)
	}
	return calls, nil
}

// finder collects the calls of a project.
type finder struct {
	dir  string
	plan Plan
	seen map[string]bool // calls, by folder and arguments
	read map[string]bool // scripts that a Makefile runs
}

// add records a call unless it generates nothing or is already known.
func (f *finder) add(call Call) {
	parsed, err := call.Arguments()
	if err == nil && len(parsed.Generators) == 0 || !slices.ContainsFunc(call.Args, isGenerator) {
		return
	}
	key := call.Dir + "\x00" + strings.Join(call.Args, "\x00")
	if f.seen[key] {
		return
	}
	f.seen[key] = true
	for i, a := range call.Args {
		call.Args[i] = f.guess(a)
	}
	if err != nil || slices.ContainsFunc(append(call.Args, call.Dir), unknown) {
		for i, a := range call.Args {
			call.Args[i] = strings.ReplaceAll(a, unresolved, "$(…)")
		}
		f.plan.Unknown = append(f.plan.Unknown, call)
		return
	}
	f.plan.Calls = append(f.plan.Calls, call)
}

// unresolved stands for an unknown value.
const unresolved = "\x01"

func unknown(s string) bool { return strings.Contains(s, unresolved) }

// guess replaces an unknown folder at the beginning of a path by the project's folder if the rest
// of the path exists there.
func (f *finder) guess(arg string) string {
	at := strings.Index(arg, unresolved+"/")
	if at < 0 || strings.Count(arg, unresolved) != 1 {
		return arg
	}
	rest := arg[at+len(unresolved)+1:]
	end := strings.IndexAny(rest, ",;")
	if end < 0 {
		end = len(rest)
	}
	if _, err := os.Stat(filepath.Join(f.dir, filepath.FromSlash(strings.TrimSuffix(rest[:end], "...")))); err != nil {
		return arg
	}
	return arg[:at] + f.dir + "/" + rest
}

// source returns a file and line relative to the project.
func (f *finder) source(name string, line int) string {
	if rel, err := filepath.Rel(f.dir, name); err == nil {
		name = filepath.ToSlash(rel)
	}
	return fmt.Sprintf("%s:%d", name, line)
}
