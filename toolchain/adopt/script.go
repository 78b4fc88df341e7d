package adopt

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"kelson.dev/toolchain/walk"
)

// scripts reads the shell scripts in the folders where projects keep them.
func (f *finder) scripts() error {
	for _, folder := range []string{"hack", "scripts", "build", "tools"} {
		err := walk.Dir(filepath.Join(f.dir, folder), func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && filepath.Ext(name) == ".sh" {
				f.script(name, f.dir, nil)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

var shellAssignment = regexp.MustCompile(`^(?:export|readonly|local|declare(?: -\w+)?)?\s*([A-Za-z_][A-Za-z0-9_]*)=(.*)$`)

// script finds the calls in a shell script that runs in a folder with arguments.
func (f *finder) script(name, dir string, args []string) {
	data, err := os.ReadFile(name)
	if f.read[name] || err != nil || !bytes.Contains(data, []byte("controller-gen")) {
		return
	}
	f.read[name] = true
	vars := map[string]string{"PWD": dir, "0": name}
	for i, a := range args {
		vars[strconv.Itoa(i+1)] = a
	}
	var expand func(string) string
	expand = func(text string) string { return expandShell(text, vars, filepath.Dir(name), f.dir, expand) }
	lines := strings.Split(string(data), "\n")
	for i := 0; i < len(lines); i++ {
		at, line := i+1, lines[i]
		for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
			i++
			line = strings.TrimSuffix(line, `\`) + " " + strings.TrimSpace(lines[i])
		}
		line = strings.TrimSpace(line)
		if a := shellAssignment.FindStringSubmatch(line); a != nil && !strings.Contains(a[2], "controller-gen ") {
			value := commands(a[2], expand)
			if len(value) == 1 && len(value[0]) == 1 {
				vars[a[1]] = value[0][0]
				continue
			}
			if len(value) == 0 {
				vars[a[1]] = ""
				continue
			}
		}
		for _, words := range commands(line, expand) {
			dir = changed(dir, words)
			if args, ok := callOf(words); ok {
				f.add(Call{Source: f.source(name, at), Dir: dir, Args: args})
			}
		}
	}
}

// expandShell returns the value of a variable or the output of a command in a script.
func expandShell(text string, vars map[string]string, scriptDir, root string, expand func(string) string) string {
	switch {
	case strings.HasPrefix(text, "("):
		return folder(strings.TrimSuffix(text[1:], ")"), scriptDir, root)
	case strings.HasPrefix(text, "{"):
		text = strings.TrimSuffix(text[1:], "}")
	}
	name, byDefault, hasDefault := strings.Cut(text, ":-")
	if !hasDefault {
		name, byDefault, hasDefault = strings.Cut(text, "-")
	}
	if strings.HasPrefix(name, "BASH_SOURCE") {
		return filepath.Join(scriptDir, filepath.Base(vars["0"]))
	}
	if value, ok := vars[name]; ok && (value != "" || !hasDefault) {
		return value
	}
	if hasDefault {
		if value := commands(byDefault, expand); len(value) == 1 {
			return strings.Join(value[0], " ")
		}
		return ""
	}
	if toolVariable.MatchString(name) {
		return "controller-gen"
	}
	return unresolved
}

var up = regexp.MustCompile(`(?:/\.\.)+/?`)

// folder returns the output of a command that prints the folder of the script or of the project.
// The output of other commands is unknown.
func folder(command, scriptDir, root string) string {
	command = strings.TrimSpace(command)
	switch {
	case command == "pwd" || strings.Contains(command, "git rev-parse --show-toplevel"):
		return root
	case strings.HasPrefix(command, "dirname /") && !strings.ContainsAny(command, "$|;&"):
		return filepath.Dir(strings.TrimPrefix(command, "dirname "))
	case strings.Contains(command, "BASH_SOURCE") || strings.Contains(command, "dirname") &&
		strings.Contains(command, "$0"):
		dir := scriptDir
		for range strings.Count(up.FindString(command), "..") {
			dir = filepath.Dir(dir)
		}
		return dir
	}
	return unresolved
}

var directive = []byte("//go:generate ")

// directives reads the go:generate directives of Go files.
func (f *finder) directives() error {
	return walk.Dir(f.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			if name != f.dir && (base == "vendor" || base == "testdata" || base == "node_modules" ||
				strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(base) != ".go" {
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(data, directive) {
			return err
		}
		for i, line := range strings.Split(string(data), "\n") {
			text, ok := strings.CutPrefix(line, string(directive))
			if !ok {
				continue
			}
			for _, words := range commands(text, func(string) string { return unresolved }) {
				if args, ok := callOf(words); ok {
					f.add(Call{Source: f.source(name, i+1), Dir: filepath.Dir(name), Args: args})
				}
			}
		}
		return nil
	})
}
