package main

import (
	"bytes"
	"fmt"
	"strings"

	"kelson.dev/toolchain/marker"
)

const generated = "<!-- Written by toolchain/internal/reference from the registry. DO NOT EDIT. -->\n\n"

func markers() []byte {
	var b bytes.Buffer
	b.WriteString(generated + `# Markers

Markers are comments that begin with a plus sign. They configure the generators. Kelson supports all markers of controller-gen (v0.23) and of Kubernetes'
code generators (v0.37), and has a few of its own.

` + "```go" + `
// CronJob runs a job on a schedule.
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Schedule,type=string,JSONPath=` + "`.spec.schedule`" + `
type CronJob struct {
	…
	// +kubebuilder:validation:Enum=Allow;Forbid;Replace
	// +default="Allow"
	// +optional
	Policy string ` + "`json:\"policy,omitempty\"`" + `
}
` + "```" + `

## Positions

The markers of a type or field are in its doc comment, or in the nearest comment above that, separated by an empty line. Markers in comments between declarations
and above ` + "`package`" + ` belong to the package. Markers inside functions and at the end of lines are ignored or reported as misplaced.

## Syntax

` + "```" + `
+NAME                          a flag
+NAME=VALUE                    one value; := means the same
+NAME:ARG=VALUE,ARG=VALUE      named arguments
+k8s:NAME(ARG: VALUE)=VALUE    arguments in parentheses, for some k8s: markers
` + "```" + `

A value is a string in quotes or backticks, a number, ` + "`true` or `false`" + `, a word (everything up to the next ` + "`,` `;` or `}`" + `), a list (` + "`a;b` or `{a,b}`" + `),
or a map (` + "`{a: 1, b: 2}`" + `). Text that contains ` + "`,` `;` or `}`" + ` needs quotes; backticks need no escapes. After a k8s: marker,
` + "`#`" + ` begins a comment.

## Errors

An unknown, misplaced or malformed marker is an error with file, line, column and, for unknown names, the most similar known name:

` + "```" + `
api/v1/types.go:20:5: unknown marker +kubebuilder:validation:Minumum; did you mean +kubebuilder:validation:Minimum?
` + "```" + `

With ` + "`--lenient`" + ` such markers are warnings and have no effect, as in controller-gen. Markers of other tools are ignored: those that begin with
`)
	foreign := marker.Foreign()
	for i, f := range foreign {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "`+%s`", f)
	}
	b.WriteString(".\n")
	for _, f := range marker.Families() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| marker | on | value | |\n|---|---|---|---|\n", f.Name, f.Doc)
		for _, d := range f.Definitions {
			doc := d.Doc
			if d.Example != "" {
				doc += " For example " + code(example(d)) + "."
			}
			fmt.Fprintf(&b, "| `+%s` | %s | %s | %s |\n", d.Name, d.On, value(d), cell(doc))
		}
	}
	return b.Bytes()
}

func example(d marker.Definition) string {
	sep := "="
	if len(d.Args) > 0 {
		sep = ":"
	}
	return "+" + strings.TrimSuffix(d.Name, "*") + sep + d.Example
}

// code formats text, which may contain backticks, as Markdown code.
func code(s string) string {
	if strings.Contains(s, "`") {
		return "`` " + s + " ``"
	}
	return "`" + s + "`"
}

// value describes the text after the name of a marker.
func value(d marker.Definition) string {
	var parts []string
	for _, a := range d.Args {
		name := "`" + a.Name + "`"
		if a.Optional {
			name = "[" + name + "]"
		}
		parts = append(parts, name+" "+a.Kind.String())
	}
	if len(d.Parens) > 0 || d.AnyParens {
		var inner []string
		for _, a := range d.Parens {
			switch {
			case a.Name == "":
				inner = append(inner, "…")
			case a.Optional:
				inner = append(inner, "["+a.Name+"]")
			default:
				inner = append(inner, a.Name)
			}
		}
		if d.AnyParens {
			inner = append(inner, "key: value, …")
		}
		parts = append(parts, "`("+strings.Join(inner, ", ")+")`")
	}
	if d.Value != marker.None {
		kind := d.Value.String()
		if d.Optional {
			kind = "[" + kind + "]"
		}
		parts = append(parts, kind)
	}
	return strings.Join(parts, ", ")
}

// cell escapes text for a table cell.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
