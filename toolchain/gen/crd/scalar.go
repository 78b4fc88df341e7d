package crd

import "strings"

// reserved are words that YAML 1.1 does not interpret as strings.
var reserved = map[string]bool{"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true, "true": true,
	"false": true, "null": true}

// width is the column after which long lines are folded, at the next space.
const width = 80

// simple encodes text as YAML if that is straightforward: prose and identifiers. The YAML package
// encodes other text. The text begins at column, in a line with the given indentation.
func simple(s string, column int, indent string) (string, bool) {
	if s == "" || !(s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z') || s[len(s)-1] == ' ' ||
		s[len(s)-1] == '\n' {
		return "", false
	}
	lines := 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\n':
			lines++
			if s[i-1] == ' ' {
				return "", false
			}
		case c < ' ' || c > '~':
			return "", false
		case c == ':' && (i+1 == len(s) || s[i+1] == ' ' || s[i+1] == '\n'), c == '#' && s[i-1] == ' ':
			if !strings.Contains(s, "\n") { // they have no special meaning in a block scalar
				return "", false
			}
		}
	}
	if lines == 0 {
		return fold(s, column, indent), !reserved[strings.ToLower(s)]
	}
	var b strings.Builder
	b.WriteString("|-\n")
	for line := range strings.SplitSeq(s, "\n") {
		if line != "" {
			b.WriteString(indent + "  " + line)
		}
		b.WriteByte('\n')
	}
	return b.String(), true
}

// fold breaks a line at the first single space after each width.
func fold(s string, column int, indent string) string {
	if column+len(s) <= width {
		return s + "\n"
	}
	var b strings.Builder
	for i := range len(s) {
		if s[i] == ' ' && column > width && s[i-1] != ' ' && s[i+1] != ' ' {
			b.WriteString("\n" + indent + "  ")
			column = len(indent) + 2
			continue
		}
		b.WriteByte(s[i])
		column++
	}
	return b.String() + "\n"
}
