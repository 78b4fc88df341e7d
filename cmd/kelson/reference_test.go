package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"kelson.dev/internal/require"
)

const reference = "../../docs/reference/commands.md"

// docs/reference/commands.md contains the help of all commands. go test ./cmd/kelson -run Reference
// -update writes it.
func TestReferenceIsUpToDate(t *testing.T) {
	home, err := os.UserHomeDir()
	require.NoError(t, err)
	// Replace defaults that depend on the machine.
	want := []byte(strings.ReplaceAll(referenceOf(rootCommand()), home, "~"))
	if *update {
		require.NoError(t, os.WriteFile(reference, want, 0o644))
		return
	}
	have, err := os.ReadFile(reference)
	require.NoError(t, err)
	if !bytes.Equal(have, want) {
		t.Error("docs/reference/commands.md is out of date: run go test ./cmd/kelson -run Reference -update")
	}
}

// referenceOf returns the help of all commands below root, as Markdown.
func referenceOf(root *cobra.Command) string {
	var b strings.Builder
	b.WriteString("# Commands\n\nThe output of `kelson help` for all commands. This page is generated.\n\n")
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, "- [`%s`](#%s): %s\n", sub.CommandPath(),
					strings.ReplaceAll(sub.CommandPath(), " ", "-"), sub.Short)
				visit(sub)
			}
		}
	}
	visit(root)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				b.WriteString(sectionOf(sub))
				visit(sub)
			}
		}
	}
	visit(root)
	return b.String()
}

func sectionOf(c *cobra.Command) string {
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	s := fmt.Sprintf("\n## %s\n\n```text\n%s\n```\n\n```console\n$ %s\n", c.CommandPath(), strings.TrimSpace(text),
		c.UseLine())
	if c.Example != "" {
		s += "\n" + c.Example + "\n"
	}
	s += "```\n"
	if flags := c.LocalFlags().FlagUsages(); flags != "" {
		s += "\n```text\n" + flags + "```\n"
	}
	return s
}

// Every command that does something has an example.
func TestEveryCommandHasAnExample(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.Name() == "completion" || sub.Name() == "help" || !sub.IsAvailableCommand() {
				continue // cobra's own
			}
			visit(sub)
			if !sub.Runnable() {
				continue
			}
			if !strings.Contains(sub.Example, "kelson") {
				t.Errorf("%s has no example", sub.CommandPath())
			}
		}
	}
	visit(rootCommand())
}
