package adopt

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// commands splits a line of a shell into commands, and each into words. Quotes are removed. expand
// returns the value of $NAME, ${NAME} and $(COMMAND), given the text after the dollar sign; in
// single quotes nothing is expanded.
func commands(line string, expand func(string) string) [][]string {
	p := &shell{text: line, expand: expand}
	return p.commands()
}

type shell struct {
	text   string
	pos    int
	expand func(string) string
	all    [][]string
	words  []string
	word   strings.Builder
	inWord bool
}

func (p *shell) endWord() {
	if p.inWord {
		p.words = append(p.words, p.word.String())
	}
	p.word.Reset()
	p.inWord = false
}

func (p *shell) endCommand() {
	p.endWord()
	if len(p.words) > 0 {
		p.all = append(p.all, p.words)
	}
	p.words = nil
}

func (p *shell) put(s string) { p.word.WriteString(s); p.inWord = true }

func (p *shell) commands() [][]string {
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		p.pos++
		switch c {
		case ' ', '\t', '\n', '\r':
			p.endWord()
		case ';', '&', '|', '(', ')':
			p.endCommand()
		case '#':
			if !p.inWord {
				p.pos = len(p.text)
				break
			}
			p.put("#")
		case '\\':
			if p.pos < len(p.text) {
				p.put(p.text[p.pos : p.pos+1])
				p.pos++
			}
		case '\'':
			end := strings.IndexByte(p.text[p.pos:], '\'')
			if end < 0 {
				end = len(p.text) - p.pos
			}
			p.put(p.text[p.pos : p.pos+end])
			p.pos = min(len(p.text), p.pos+end+1)
		case '"':
			p.quoted()
		case '`':
			end := strings.IndexByte(p.text[p.pos:], '`')
			if end < 0 {
				end = len(p.text) - p.pos
			}
			p.put(p.expand("(" + p.text[p.pos:p.pos+end] + ")"))
			p.pos = min(len(p.text), p.pos+end+1)
		case '$':
			value := p.variable()
			// an unquoted value is split into words
			for i, part := range strings.Fields(value) {
				if i > 0 {
					p.endWord()
				}
				p.put(part)
			}
		default:
			p.put(p.text[p.pos-1 : p.pos])
		}
	}
	p.endCommand()
	return p.all
}

func (p *shell) quoted() {
	p.inWord = true
	for p.pos < len(p.text) {
		c := p.text[p.pos]
		p.pos++
		switch c {
		case '"':
			return
		case '\\':
			if p.pos < len(p.text) {
				p.put(p.text[p.pos : p.pos+1])
				p.pos++
			}
		case '$':
			p.put(p.variable())
		default:
			p.put(p.text[p.pos-1 : p.pos])
		}
	}
}

var variableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*|[0-9@*#?])`)

// variable reads the text after a dollar sign and returns its value.
func (p *shell) variable() string {
	rest := p.text[p.pos:]
	if rest != "" && (rest[0] == '(' || rest[0] == '{') {
		n := balanced(rest)
		p.pos += n
		return p.expand(rest[:n])
	}
	if name := variableName.FindString(rest); name != "" {
		p.pos += len(name)
		return p.expand(name)
	}
	return "$"
}

// balanced returns the length of the bracketed text at the beginning of s, including the brackets.
func balanced(s string) int {
	open, end, depth := s[0], byte(')'), 0
	if open == '{' {
		end = '}'
	}
	for i := range len(s) {
		switch s[i] {
		case open:
			depth++
		case end:
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(s)
}

var (
	toolName     = regexp.MustCompile(`^controller-gen([-.@_]v?[0-9].*)?$`)
	toolVariable = regexp.MustCompile(`(?i)controller[-_]?gen`)
	assignment   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
	redirection  = regexp.MustCompile(`^[0-9]*[<>]`)
)

// callOf returns the arguments of a command that runs controller-gen directly, with the go command,
// in a container, or with another program that takes its path.
func callOf(words []string) ([]string, bool) {
	container := false
	for i, w := range words {
		if toolName.MatchString(path.Base(w)) {
			args := slices.Clone(words[i+1:])
			if at := slices.IndexFunc(args, redirection.MatchString); at >= 0 {
				args = args[:at]
			}
			return args, len(args) > 0
		}
		switch {
		case container || i == 0 && (w == "docker" || w == "podman"):
			container = true
		case w == "go" || w == "run" || w == "tool" || w == "exec" || w == "env" || w == "time":
		case strings.HasPrefix(w, "-") || strings.HasPrefix(w, "@") || assignment.MatchString(w) || unknown(w):
		default:
			return nil, false
		}
	}
	return nil, false
}
