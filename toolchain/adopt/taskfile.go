package adopt

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// taskfileNames are the names that the program task looks for, in its order.
var taskfileNames = []string{
	"Taskfile.yml", "taskfile.yml", "Taskfile.yaml", "taskfile.yaml",
	"Taskfile.dist.yml", "taskfile.dist.yml", "Taskfile.dist.yaml", "taskfile.dist.yaml",
}

// taskfiles finds the calls in the project's Taskfile, and in those that it includes.
func (f *finder) taskfiles() error { return f.taskfile(f.dir, f.dir, nil) }

// taskfile finds the calls in a file, or in the Taskfile of a folder. Its tasks run in dir. outer
// has the variables of the file that includes it. A file that is included twice counts once.
func (f *finder) taskfile(name, dir string, outer map[string]*yaml.Node) error {
	if isDir(name) {
		folder := name
		for _, n := range taskfileNames {
			name = filepath.Join(folder, n)
			if _, err := os.Stat(name); err == nil {
				break
			}
		}
	}
	if f.read[name] || unknown(name) {
		return nil
	}
	f.read[name] = true
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // an include may be optional
	}
	if err != nil {
		return err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if len(document.Content) == 0 {
		return nil
	}
	root := document.Content[0]
	t := &tasks{finder: f, file: name, vars: merged(outer, root)}
	for _, include := range pairs(field(root, "includes")) {
		path, at := include.value, (*yaml.Node)(nil)
		if path.Kind == yaml.MappingNode {
			path, at = field(path, "taskfile"), field(path, "dir")
		}
		if path == nil {
			continue
		}
		included, in := t.path(path.Value, filepath.Dir(name)), dir
		if at != nil {
			in = t.path(at.Value, filepath.Dir(name))
		}
		if err := f.taskfile(included, in, t.vars); err != nil {
			return err
		}
	}
	for _, task := range pairs(field(root, "tasks")) {
		t.task(task.value, dir)
	}
	return nil
}

// tasks finds calls in the tasks of one file.
type tasks struct {
	*finder
	file string
	vars map[string]*yaml.Node
}

// task finds the calls in a task: a command, a list of commands, or a mapping with cmd or cmds.
func (t *tasks) task(task *yaml.Node, dir string) {
	of, cmds := t, []*yaml.Node{task}
	switch task.Kind {
	case yaml.SequenceNode:
		cmds = task.Content
	case yaml.MappingNode:
		of = &tasks{t.finder, t.file, merged(t.vars, task)}
		if at := field(task, "dir"); at != nil {
			dir = of.path(at.Value, dir)
		}
		cmds = nil
		if cmd := field(task, "cmd"); cmd != nil {
			cmds = []*yaml.Node{cmd}
		}
		if list := field(task, "cmds"); list != nil {
			cmds = append(cmds, list.Content...)
		}
	}
	for _, cmd := range cmds {
		if cmd.Kind == yaml.MappingNode {
			cmd = field(cmd, "cmd")
		}
		if cmd != nil && cmd.Kind == yaml.ScalarNode {
			of.command(cmd, dir)
		}
	}
}

// command finds the calls in the lines of a command, which is a shell script.
func (t *tasks) command(cmd *yaml.Node, dir string) {
	line := cmd.Line
	if cmd.Style == yaml.LiteralStyle || cmd.Style == yaml.FoldedStyle {
		line++ // the text begins below the mark
	}
	var expand func(string) string
	expand = func(text string) string {
		return expandShell(text, map[string]string{"PWD": dir}, dir, t.dir, expand)
	}
	lines := strings.Split(t.expand(cmd.Value, 0), "\n")
	for i := 0; i < len(lines); i++ {
		at, text := i, lines[i]
		for strings.HasSuffix(text, `\`) && i+1 < len(lines) {
			i++
			text = strings.TrimSuffix(text, `\`) + " " + strings.TrimSpace(lines[i])
		}
		for _, words := range commands(text, expand) {
			dir = changed(dir, words)
			if args, ok := callOf(words); ok {
				t.add(Call{Source: t.source(t.file, line+at), Dir: dir, Args: args})
			}
		}
	}
}

// path returns the absolute path of a folder or file that is relative to dir.
func (t *tasks) path(text, dir string) string {
	text = t.expand(text, 0)
	switch {
	case unknown(text):
		return unresolved
	case filepath.IsAbs(text):
		return filepath.Clean(text)
	}
	return filepath.Join(dir, filepath.FromSlash(text))
}

var (
	template        = regexp.MustCompile(`\{\{.*?\}\}`)
	templateField   = regexp.MustCompile(`^\{\{-?\s*\.([A-Za-z_][A-Za-z0-9_]*)\s*(?:\|\s*default\s+"([^"]*)"\s*)?-?\}\}$`)
	templateDefault = regexp.MustCompile(`^\{\{-?\s*default\s+"([^"]*)"\s+\.([A-Za-z_][A-Za-z0-9_]*)\s*-?\}\}$`)
)

// expand replaces variables in a text: {{.NAME}}, also with a default. The values of other
// templates are unknown.
func (t *tasks) expand(text string, depth int) string {
	return template.ReplaceAllStringFunc(text, func(s string) string {
		var name, byDefault string
		if m := templateField.FindStringSubmatch(s); m != nil {
			name, byDefault = m[1], m[2]
		} else if m := templateDefault.FindStringSubmatch(s); m != nil {
			byDefault, name = m[1], m[2]
		} else {
			return unresolved
		}
		value := t.vars[name]
		switch {
		case depth > maxDepth:
			return unresolved
		case value != nil && value.Kind == yaml.ScalarNode:
			// NAME: '{{.NAME | default "x"}}' is how a Taskfile gives a variable a default
			if m := templateField.FindStringSubmatch(value.Value); m != nil && m[1] == name {
				return m[2]
			}
			return t.expand(value.Value, depth+1)
		case value != nil:
			if command := field(value, "sh"); command != nil {
				return folder(t.expand(command.Value, depth+1), t.dir, t.dir)
			}
			return unresolved
		case byDefault != "":
			return byDefault
		case name == "ROOT_DIR" || name == "USER_WORKING_DIR":
			return t.dir
		case name == "TASKFILE_DIR":
			return filepath.Dir(t.file)
		case toolVariable.MatchString(name):
			return "controller-gen"
		}
		return unresolved
	})
}

// merged returns variables with those of a mapping's vars added.
func merged(outer map[string]*yaml.Node, mapping *yaml.Node) map[string]*yaml.Node {
	all := map[string]*yaml.Node{}
	maps.Copy(all, outer)
	for _, v := range pairs(field(mapping, "vars")) {
		all[v.key] = v.value
	}
	return all
}

type pair struct {
	key   string
	value *yaml.Node
}

// pairs returns the fields of a mapping in their order, none if the node is not a mapping.
func pairs(n *yaml.Node) (all []pair) {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		value := n.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		all = append(all, pair{n.Content[i].Value, value})
	}
	return all
}

// field returns a field of a mapping, or nil.
func field(n *yaml.Node, key string) *yaml.Node {
	for _, p := range pairs(n) {
		if p.key == key {
			return p.value
		}
	}
	return nil
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
