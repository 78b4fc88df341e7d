package adopt

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"kelson.dev/toolchain"
)

// maxDepth limits the nesting of variables and included files.
const maxDepth = 20

// makefiles finds the calls in the project's Makefile, and in those that it includes.
func (f *finder) makefiles() error {
	m, err := f.makefile()
	if m == nil || err != nil {
		return err
	}
	m.recipes()
	return nil
}

// makefile reads the project's Makefile, and those that it includes. It returns nil if the project
// has none.
func (f *finder) makefile() (*makefile, error) {
	for _, name := range []string{"GNUmakefile", "makefile", "Makefile"} {
		m := newMakefile(f, name)
		err := m.file(filepath.Join(f.dir, name), 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return m, err
	}
	return nil, nil
}

// makefile holds the variables of a Makefile and the lines of its recipes. Like make, it expands
// the recipes after it has read the whole file.
type makefile struct {
	*finder
	vars    map[string]string
	lines   []recipeLine
	rules   int
	targets []string // of the last rule
}

func newMakefile(f *finder, name string) *makefile {
	return &makefile{finder: f, vars: map[string]string{"CURDIR": f.dir, "MAKE": "make", "PWD": f.dir,
		"MAKEFILE_LIST": filepath.Join(f.dir, name)}}
}

type recipeLine struct {
	source  string
	rule    int // the index of the rule that the line belongs to
	targets []string
	text    string
}

var (
	makeAssignment = regexp.MustCompile(`^(?:export\s+|override\s+)*([A-Za-z_][A-Za-z0-9_.-]*)\s*(\?=|:=|::=|\+=|=)\s*(.*)$`)
	makeInclude    = regexp.MustCompile(`^(?:-|s)?include\s+(.*)$`)
	makeVariable   = regexp.MustCompile(`^\$[({]([A-Za-z_][A-Za-z0-9_.-]*)[)}]$`)
	currentYear    = regexp.MustCompile(`^date (?:-u )?["']?\+["']?%Y["']?$`)
	makeCondition  = regexp.MustCompile(`^(ifeq|ifneq|ifdef|ifndef|else|endif)\b`)
)

// file reads one file. If several branches of a condition assign a variable, the first one counts.
func (m *makefile) file(name string, depth int) error {
	data, err := os.ReadFile(name)
	if err != nil || depth > maxDepth {
		return err
	}
	lines := strings.Split(string(data), "\n")
	conditions := 0
	for i := 0; i < len(lines); i++ {
		at := i + 1
		line := strings.TrimSuffix(lines[i], "\r")
		for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
			i++
			line = strings.TrimSuffix(line, `\`) + " " + strings.TrimSpace(lines[i])
		}
		if strings.HasPrefix(line, "\t") {
			m.lines = append(m.lines, recipeLine{m.source(name, at), m.rules, m.targets, strings.TrimSpace(line)})
			continue
		}
		line = strings.TrimSpace(withoutComment(line))
		switch {
		case line == "":
		case strings.HasPrefix(line, "define "):
			for i < len(lines) && strings.TrimSpace(lines[i]) != "endef" {
				i++
			}
		case makeCondition.MatchString(line):
			if strings.HasPrefix(line, "if") {
				conditions++
			} else if line == "endif" {
				conditions--
			}
		case makeInclude.MatchString(line):
			for _, pattern := range strings.Fields(m.expand(makeInclude.FindStringSubmatch(line)[1], 0)) {
				if !filepath.IsAbs(pattern) {
					pattern = filepath.Join(m.dir, pattern)
				}
				found, _ := filepath.Glob(pattern)
				for _, included := range found {
					if err := m.file(included, depth+1); err != nil && !errors.Is(err, fs.ErrNotExist) {
						return err
					}
				}
			}
		default:
			if a := makeAssignment.FindStringSubmatch(line); a != nil {
				m.assign(a[1], a[2], a[3], conditions > 0)
			} else {
				m.rules++
				targets, _, _ := strings.Cut(line, ":")
				m.targets = strings.Fields(targets)
			}
		}
	}
	return nil
}

// withoutComment removes a comment from a line that is not in a recipe.
func withoutComment(line string) string {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] != '\\') {
			return line[:i]
		}
	}
	return line
}

func (m *makefile) assign(name, operator, value string, conditional bool) {
	have, set := m.vars[name]
	switch {
	case operator == "?=" && set, conditional && set && operator != "+=":
	case operator == "+=" && set:
		m.vars[name] = have + " " + value
	case operator == ":=" || operator == "::=":
		m.vars[name] = strings.ReplaceAll(m.expand(value, 0), "$", "$$")
	default:
		m.vars[name] = value
	}
}

// expand replaces the variables and functions of make in a text.
func (m *makefile) expand(text string, depth int) string {
	if depth > maxDepth {
		return unresolved
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '$' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		switch text[i] {
		case '$':
			b.WriteByte('$')
		case '(', '{':
			n := balanced(text[i:])
			inner := text[i+1 : max(i+1, i+n-1)]
			b.WriteString(m.reference(inner, depth))
			i += n - 1
		default:
			b.WriteString(unresolved) // $@, $<, $^
		}
	}
	return b.String()
}

// reference returns the value of a variable or of a call of a function.
func (m *makefile) reference(text string, depth int) string {
	name, rest, isCall := strings.Cut(text, " ")
	if value, ok := m.vars[text]; ok {
		return m.expand(value, depth+1)
	}
	if !isCall {
		if toolVariable.MatchString(text) {
			return "controller-gen"
		}
		if base, change, ok := strings.Cut(text, ":"); ok && strings.Contains(change, "=") {
			from, to, _ := strings.Cut(change, "=")
			return m.substitute(m.reference(base, depth+1), from, to)
		}
		return unresolved
	}
	arguments := func() string { return m.expand(strings.TrimSpace(rest), depth+1) }
	switch name {
	case "abspath", "realpath":
		return m.each(arguments(), func(w string) string {
			if unknown(w) || filepath.IsAbs(w) {
				return w
			}
			return filepath.Join(m.dir, w)
		})
	case "strip":
		return strings.Join(strings.Fields(arguments()), " ")
	case "firstword", "lastword":
		words := strings.Fields(arguments())
		if len(words) == 0 {
			return ""
		}
		if name == "firstword" {
			return words[0]
		}
		return words[len(words)-1]
	case "dir":
		return m.each(arguments(), func(w string) string { return filepath.Dir(w) + "/" })
	case "notdir":
		return m.each(arguments(), filepath.Base)
	case "addprefix", "addsuffix":
		affix, words, _ := strings.Cut(arguments(), ",")
		return m.each(words, func(w string) string {
			if name == "addprefix" {
				return affix + w
			}
			return w + affix
		})
	case "patsubst":
		parts := strings.SplitN(arguments(), ",", 3)
		if len(parts) == 3 {
			return m.substitute(parts[2], parts[0], strings.TrimSpace(parts[1]))
		}
	case "subst":
		parts := strings.SplitN(arguments(), ",", 3)
		if len(parts) == 3 && !unknown(parts[2]) {
			return strings.ReplaceAll(parts[2], parts[0], parts[1])
		}
	case "or":
		for _, part := range split(rest) {
			if value := m.optional(part, depth+1); value != "" {
				return value
			}
		}
		return ""
	case "if":
		parts := split(rest)
		condition := m.optional(parts[0], depth+1)
		switch {
		case unknown(condition):
		case condition != "" && len(parts) > 1:
			return m.expand(parts[1], depth+1)
		case condition == "" && len(parts) > 2:
			return m.expand(strings.Join(parts[2:], ","), depth+1)
		default:
			return ""
		}
	case "shell":
		if command := arguments(); !currentYear.MatchString(command) {
			return folder(command, m.dir, m.dir)
		}
		return strconv.Itoa(time.Now().Year()) // of copyrights, as kubebuilder's Makefiles write it
	}
	return unresolved
}

// split returns the arguments of a function, which commas separate.
func split(text string) (parts []string) {
	from, depth := 0, 0
	for i, c := range text {
		switch c {
		case '(', '{':
			depth++
		case ')', '}':
			depth--
		case ',':
			if depth == 0 {
				parts, from = append(parts, strings.TrimSpace(text[from:i])), i+1
			}
		}
	}
	return append(parts, strings.TrimSpace(text[from:]))
}

// optional is like expand, but a variable that the Makefile does not assign is empty: users set it
// on make's command line.
func (m *makefile) optional(text string, depth int) string {
	if v := makeVariable.FindStringSubmatch(text); v != nil {
		if _, assigned := m.vars[v[1]]; !assigned {
			return ""
		}
	}
	return m.expand(text, depth)
}

func (m *makefile) each(words string, change func(string) string) string {
	all := strings.Fields(words)
	for i, w := range all {
		all[i] = change(w)
	}
	return strings.Join(all, " ")
}

// substitute replaces words that match a pattern with one %, or a suffix.
func (m *makefile) substitute(words, from, to string) string {
	if !strings.Contains(from, "%") {
		from, to = "%"+from, "%"+to
	}
	prefix, suffix, _ := strings.Cut(from, "%")
	return m.each(words, func(w string) string {
		if len(w) < len(prefix)+len(suffix) || !strings.HasPrefix(w, prefix) || !strings.HasSuffix(w, suffix) ||
			unknown(w) {
			return w
		}
		return strings.Replace(to, "%", w[len(prefix):len(w)-len(suffix)], 1)
	})
}

// recipes finds the calls in the recipes, and runs of scripts with calls.
func (m *makefile) recipes() {
	called := -1 // the last rule with a call
	for _, line := range m.lines {
		text := m.expand(strings.TrimLeft(line.text, "@+- "), 0)
		if !strings.Contains(text, "controller-gen") && !strings.Contains(text, ".sh") &&
			!strings.HasPrefix(text, "rm ") && !strings.HasPrefix(text, "mv ") {
			continue
		}
		dir := m.dir
		for _, words := range commands(text, func(string) string { return unresolved }) {
			dir = changed(dir, words)
			if words[0] == "rm" && !unknown(dir) && line.rule == called {
				m.removed(dir, words[1:])
			}
			if words[0] == "mv" && !unknown(dir) && line.rule == called {
				m.moved(dir, words[1:])
			}
			if args, ok := callOf(words); ok {
				m.add(Call{Source: line.source, Dir: dir, Args: args})
				called = line.rule
				continue
			}
			for i, w := range words {
				if strings.HasSuffix(w, ".sh") && !unknown(w) && i < 4 {
					if !filepath.IsAbs(w) {
						w = filepath.Join(dir, w)
					}
					m.script(w, dir, words[i+1:])
					break
				}
			}
		}
	}
}

// removed records the YAML files that a recipe removes.
func (m *makefile) removed(dir string, names []string) {
	for _, name := range names {
		if filepath.Ext(name) == ".yaml" && !unknown(name) && !strings.Contains(name, "*") {
			if !filepath.IsAbs(name) {
				name = filepath.Join(dir, name)
			}
			m.plan.Removed = append(m.plan.Removed, name)
		}
	}
}

// moved records the YAML files that a recipe moves.
func (m *makefile) moved(dir string, args []string) {
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return strings.HasPrefix(a, "-") })
	if len(args) < 2 || slices.ContainsFunc(args, unknown) {
		return
	}
	absolute := func(name string) string {
		if filepath.IsAbs(name) {
			return filepath.Clean(name)
		}
		return filepath.Join(dir, name)
	}
	last := args[len(args)-1]
	to := absolute(last)
	info, err := os.Stat(to)
	folder := strings.HasSuffix(last, "/") || err == nil && info.IsDir()
	for _, from := range args[:len(args)-1] {
		if filepath.Ext(from) != ".yaml" {
			continue
		}
		move := toolchain.Move{From: absolute(from), To: to}
		if folder || strings.ContainsAny(from, "*?[") {
			move.To = filepath.Join(to, "*")
		}
		m.plan.Moved = append(m.plan.Moved, move)
	}
}

// changed returns the working folder after a command, which only cd changes.
func changed(dir string, words []string) string {
	if words[0] != "cd" || len(words) < 2 {
		return dir
	}
	to := words[len(words)-1]
	switch {
	case unknown(to):
		return unresolved
	case filepath.IsAbs(to):
		return filepath.Clean(to)
	default:
		return filepath.Join(dir, to)
	}
}
