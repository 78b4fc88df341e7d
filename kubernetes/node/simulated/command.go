package simulated

import (
	"path"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// run is the result of interpreting a command.
type run struct {
	lines []line
	at    time.Duration // how long the command runs
	code  int32
	done  bool // by the exit command
}

// interpret simulates echo, sleep, true, false, exit and ":", and `sh -c` with a list of them
// separated by newlines, ";", "&&" and "||". It is not a shell: anything else makes ok false, and
// the container then gets the default script.
func interpret(command []string, env []corev1.EnvVar) (r run, ok bool) {
	switch name := path.Base(command[0]); {
	case (name == "sh" || name == "bash" || name == "ash") && len(command) >= 3 && strings.HasPrefix(command[1], "-") &&
		strings.HasSuffix(command[1], "c"):
		tokens, ok := tokenize(command[2], env)
		return r, ok && r.list(tokens, strings.Contains(command[1], "e"))
	case name == "exit" || name == ":":
		return r, false // shell builtins, not programs
	default:
		return r, r.command(append([]string{name}, command[1:]...))
	}
}

// list runs commands separated by operators. stopOnError is the shell's -e. It returns false if it
// can't simulate a command.
func (r *run) list(tokens []token, stopOnError bool) bool {
	join := ";"
	for len(tokens) > 0 && !r.done {
		end := 0
		var words []string
		for end < len(tokens) && !tokens[end].operator {
			words = append(words, tokens[end].text)
			end++
		}
		operator := ";"
		if end < len(tokens) {
			operator = tokens[end].text
			end++
		}
		tokens = tokens[end:]
		skip := len(words) == 0 || join == "&&" && r.code != 0 || join == "||" && r.code == 0
		join = operator
		if skip {
			continue
		}
		if !r.command(words) {
			return false
		}
		if stopOnError && r.code != 0 && operator == ";" {
			r.done = true
		}
	}
	return true
}

// command runs one simple command. It returns false if it can't simulate the command.
func (r *run) command(words []string) bool {
	switch name, args := words[0], words[1:]; {
	case name == "echo":
		if len(args) > 0 && (args[0] == "-n" || args[0] == "-e") {
			args = args[1:]
		}
		for _, text := range strings.Split(strings.Join(args, " "), "\n") {
			r.lines = append(r.lines, line{r.at, text})
		}
		r.code = 0
	case name == "true" || name == ":":
		r.code = 0
	case name == "false":
		r.code = 1
	case name == "sleep" && len(args) == 1:
		d, ok := sleepTime(args[0])
		if !ok {
			return false
		}
		r.at += d
		r.code = 0
	case name == "exit" && len(args) == 0:
		r.done = true
	case name == "exit" && len(args) == 1:
		code, err := strconv.ParseUint(args[0], 10, 8)
		if err != nil {
			return false
		}
		r.code, r.done = int32(code), true
	default:
		return false
	}
	return true
}

// sleepTime parses a number with an optional unit s, m, h or d.
func sleepTime(text string) (time.Duration, bool) {
	unit := time.Second
	for suffix, d := range map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour,
		"d": 24 * time.Hour} {
		if number, ok := strings.CutSuffix(text, suffix); ok {
			text, unit = number, d
			break
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 || n > 1e6 {
		return 0, false
	}
	return time.Duration(n * float64(unit)), true
}

// token is a word or an operator of a shell command.
type token struct {
	text     string
	operator bool
}

// tokenize splits a shell command into words and the operators of list. It supports quotes and
// $NAME; any other special character (pipes, redirections, globs, substitutions) makes ok false.
func tokenize(text string, env []corev1.EnvVar) (tokens []token, ok bool) {
	var word strings.Builder
	inWord, quote := false, byte(0)
	flush := func() {
		if inWord {
			tokens = append(tokens, token{text: word.String()})
			word.Reset()
			inWord = false
		}
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote == '\'' && c != '\'' || quote == '"' && c != '"' && c != '$' && c != '\\' && c != '`':
			word.WriteByte(c)
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, inWord = c, true
		case c == '$':
			value, n := variable(text[i+1:], env)
			if n == 0 {
				return nil, false
			}
			word.WriteString(value)
			inWord = true
			i += n
		case quote == 0 && (c == ' ' || c == '\t'):
			flush()
		case quote == 0 && (c == ';' || c == '\n'):
			flush()
			tokens = append(tokens, token{";", true})
		case quote == 0 && (strings.HasPrefix(text[i:], "&&") || strings.HasPrefix(text[i:], "||")):
			flush()
			tokens = append(tokens, token{text[i : i+2], true})
			i++
		case strings.IndexByte("|&<>()`\\*?[]#~{}!", c) >= 0:
			return nil, false
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	flush()
	return tokens, quote == 0
}

// variable expands NAME or {NAME} after a dollar sign. n is the number of bytes that it consumed,
// or 0 if the text is neither.
func variable(text string, env []corev1.EnvVar) (value string, n int) {
	name := text
	if rest, ok := strings.CutPrefix(text, "{"); ok {
		if name, _, ok = strings.Cut(rest, "}"); !ok {
			return "", 0
		}
		n = len("{}")
	} else if end := strings.IndexFunc(text, notInName); end >= 0 {
		name = text[:end]
	}
	if name == "" || name[0] >= '0' && name[0] <= '9' || strings.IndexFunc(name, notInName) >= 0 {
		return "", 0
	}
	for _, e := range env {
		if e.Name == name {
			value = e.Value
		}
	}
	return value, n + len(name)
}

func notInName(c rune) bool {
	return c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
}
