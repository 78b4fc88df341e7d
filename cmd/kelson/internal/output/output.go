// Package output has the parts that commands which print data share: the flag --output, and colors
// and progress on terminals.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	"kelson.dev/lab/printable"
)

// Format is the value of --output.
type Format string

// Formats.
const (
	Text Format = ""
	JSON Format = "json"
	YAML Format = "yaml"
)

// AddFlag registers --output with its completion. The command must be checked with Check.
func (f *Format) AddFlag(c *cobra.Command) {
	c.Flags().VarP(f, "output", "o", "format: text, json or yaml (default: text)")
	// the flag exists
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", string(JSON), string(YAML)},
		cobra.ShellCompDirectiveNoFileComp))
}

// String implements pflag.Value.
func (f *Format) String() string { return string(*f) }

// Type implements pflag.Value.
func (f *Format) Type() string { return "format" }

// Set implements pflag.Value.
func (f *Format) Set(text string) error {
	if text == "text" {
		text = string(Text)
	}
	if !slices.Contains([]Format{Text, JSON, YAML}, Format(text)) {
		return fmt.Errorf("unknown format %q: want text, json or yaml", text)
	}
	*f = Format(text)
	return nil
}

// Print writes a value as JSON or YAML.
func (f Format) Print(out io.Writer, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	if f == YAML {
		// The parser refuses control characters that JSON may have as they are. The escapes of the
		// remaining characters, which are in strings, have the same meaning in YAML.
		lines := strings.Split(string(data), "\n")
		for i := range lines {
			lines[i] = printable.Escape(lines[i])
		}
		if data, err = yaml.JSONToYAML([]byte(strings.Join(lines, "\n"))); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "%s\n", strings.TrimRight(string(data), "\n"))
	return err
}

// Colors colors text for a terminal.
type Colors bool

// ColorsFor returns whether out is a terminal that shows colors. The environment variable NO_COLOR
// turns them off.
func ColorsFor(out io.Writer) Colors {
	f, ok := Raw(out).(*os.File)
	return Colors(ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd())))
}

func (c Colors) paint(code, text string) string {
	if !c || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Bold is for the subject of a line.
func (c Colors) Bold(text string) string { return c.paint("1", text) }

// Faint is for times and other details.
func (c Colors) Faint(text string) string { return c.paint("2", text) }

// Bad is for errors and removed values.
func (c Colors) Bad(text string) string { return c.paint("31", text) }

// Warn is for possible problems.
func (c Colors) Warn(text string) string { return c.paint("33", text) }

// Good is for added values.
func (c Colors) Good(text string) string { return c.paint("32", text) }
