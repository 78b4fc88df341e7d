// Package usage reports wrong command lines: with near misses, the line of usage, and an exit code
// of their own. It also groups the commands in the help of the program.
package usage

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kelson.dev/toolchain/similar"
)

// Exit codes of wrong command lines. In plan and replay, 2 means changes and divergences, so these
// have the code EX_USAGE of sysexits.h instead.
const (
	Code       = 2
	codeOfPlan = 64
)

// Error is the error of a wrong command line.
type Error struct {
	Code int
	err  error
}

func (e *Error) Error() string { return e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

func errorOf(c *cobra.Command, err error) *Error {
	code := Code
	if c.Name() == "plan" || c.Name() == "replay" {
		code = codeOfPlan
	}
	return &Error{code, err}
}

// Register prepares the commands below root, except those with the names of drop-ins, which report
// errors as the programs that they replace. Call it after the last command has been added.
func Register(root *cobra.Command, dropins []string) {
	root.DisableSuggestions = true // As adds them, on the same line
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if slices.Contains(dropins, c.Name()) {
			return err
		}
		return errorOf(c, nearFlag(c, err))
	})
	for _, c := range root.Commands() {
		if !slices.Contains(dropins, c.Name()) && c.Name() != "completion" {
			register(c)
		}
	}
	group(root)
}

func register(c *cobra.Command) {
	for _, sub := range c.Commands() {
		register(sub)
	}
	if c.HasAvailableSubCommands() && !c.Runnable() {
		c.Args, c.RunE = cobra.ArbitraryArgs, withoutSubcommand
		return
	}
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return errorOf(c, fmt.Errorf("%w; usage: %s", err, c.UseLine()))
			}
			return nil
		}
	}
}

// withoutSubcommand is the action of a command that has only subcommands.
func withoutSubcommand(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return errorOf(c, nearCommand(c, fmt.Errorf("unknown command %q for %q", args[0], c.CommandPath()), args[0]))
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return errorOf(c, fmt.Errorf("%s needs a command: %s", c.CommandPath(), strings.Join(names, ", ")))
}

// As returns the error of a wrong command line, and nil for other errors. Cobra returns some of
// them as plain texts.
func As(root *cobra.Command, err error, args []string) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	text := err.Error()
	switch {
	case strings.HasPrefix(text, "unknown command "):
		_, name, _ := strings.Cut(text, `"`)
		name, _, _ = strings.Cut(name, `"`)
		return errorOf(root, nearCommand(root, err, name))
	case strings.HasPrefix(text, "required flag(s) "), strings.HasPrefix(text, "if any flags in the group "),
		strings.HasPrefix(text, "at least one of the flags in the group "):
		c, _, found := root.Find(args)
		if found != nil {
			c = root
		}
		return errorOf(c, err)
	}
	return nil
}

// nearFlag adds the nearest flag to the error about an unknown one.
func nearFlag(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return err
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if name := similar.Nearest(unknown.GetSpecifiedName(), names); name != "" {
		return fmt.Errorf("%w; did you mean --%s?", err, name)
	}
	return err
}

func nearCommand(parent *cobra.Command, err error, given string) error {
	var names []string
	for _, c := range parent.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if name := similar.Nearest(given, names); name != "" {
		return fmt.Errorf("%w; did you mean %s?", err, name)
	}
	return err
}

// groups are the groups of commands in the help of the program, in order. Others follow.
var groups = []struct {
	id, title string
	commands  []string
}{
	{"run", "Run a cluster:", []string{"serve", "list", "stop", "fork", "data", "token", "kubectl", "kubectl-plugin"}},
	{"write", "Write an operator:", []string{"init", "create", "edit", "delete", "upgrade", "generate", "manifests",
		"build", "dev", "run"}},
	{"ship", "Ship it:", []string{"vet", "image", "install", "uninstall", "deploy", "undeploy", "package"}},
	{"understand", "Understand a cluster:", []string{"why", "blame", "console", "record", "history", "diff", "rights"}},
	{"test", "Test an operator:", []string{"test", "envtest", "explore", "plan", "replay"}},
}

// group groups the commands of root. Groups without commands are left out.
func group(root *cobra.Command) {
	for _, g := range groups {
		added := false
		for _, c := range root.Commands() {
			if !slices.Contains(g.commands, c.Name()) {
				continue
			}
			if !added {
				root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
				added = true
			}
			c.GroupID = g.id
		}
	}
}
