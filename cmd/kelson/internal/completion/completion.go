// Package completion completes command lines of kelson: the names of objects, namespaces and
// contexts come from kubectl and from the kubeconfig.
package completion

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/kubernetes/emulation"
)

// Register adds completions to the commands below root: the values of the flags --context,
// --namespace, --node and --emulated-version, and the kinds of a project. It turns off the
// completion of files for commands without arguments.
func Register(root *cobra.Command) {
	for _, c := range root.Commands() {
		Register(c)
	}
	if root.ValidArgsFunction == nil && !root.HasAvailableSubCommands() && !strings.Contains(root.Use, " ") {
		root.ValidArgsFunction = cobra.NoFileCompletions
	}
	for name, complete := range completed {
		if root.LocalNonPersistentFlags().Lookup(name) == nil && root.PersistentFlags().Lookup(name) == nil {
			continue
		}
		if _, exists := root.GetFlagCompletionFunc(name); !exists {
			_ = root.RegisterFlagCompletionFunc(name, complete) // the flag exists
		}
	}
}

// completed are the completions of the values of flags, by the names of these.
var completed = map[string]cobra.CompletionFunc{
	"context": contexts, "namespace": namespaces, "emulated-version": releases,
	"node": cobra.FixedCompletions([]string{
		"simulated\tpods run by declaration", "process\tpods run as processes of this machine",
		"containers\tpods run in containers", "none\tpods do not run",
	}, cobra.ShellCompDirectiveNoFileComp),
}

// releases completes the releases of Kubernetes that a control plane can emulate, the newest first.
func releases(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return emulation.Releases(), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// contexts completes the contexts of the kubeconfig.
func contexts(c *cobra.Command, _ []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = value(c, "kubeconfig")
	config, err := rules.Load()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var found []cobra.Completion
	for name := range config.Contexts {
		if strings.HasPrefix(name, toComplete) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return found, cobra.ShellCompDirectiveNoFileComp
}

func namespaces(c *cobra.Command, _ []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	found, _ := Kubectl(c, "get", "namespaces", toComplete)
	return found, cobra.ShellCompDirectiveNoFileComp
}

// Objects completes one argument KIND/NAME with the objects of the cluster.
func Objects(c *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	found, _ := Kubectl(c, "get", toComplete)
	return Kinds(found, toComplete)
}

// Kinds returns completions of KIND/NAME. If toComplete has a slash, found lists objects, and Kinds
// returns it unchanged. Otherwise found lists kinds, and Kinds adds a slash to each.
func Kinds(found []cobra.Completion, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if strings.Contains(toComplete, "/") {
		return found, cobra.ShellCompDirectiveNoFileComp
	}
	kinds := make([]cobra.Completion, len(found))
	for i, kind := range found {
		kinds[i] = kind + "/"
	}
	return kinds, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// clusterFlags are the flags that commands of kelson and kubectl share.
var clusterFlags = []string{"kubeconfig", "context", "namespace"}

// Kubectl asks the linked kubectl to complete its arguments, the last of which is incomplete, with
// the cluster that the flags of c select. It runs in a process of its own, because kubectl exits.
func Kubectl(c *cobra.Command, args ...string) ([]cobra.Completion, cobra.ShellCompDirective) {
	self, err := os.Executable()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	all := []string{"kubectl", cobra.ShellCompRequestCmd}
	for _, name := range clusterFlags {
		if v := value(c, name); v != "" {
			all = append(all, "--"+name+"="+v)
		}
	}
	out, err := exec.CommandContext(c.Context(), self, append(all, args...)...).Output()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	last := len(lines) - 1 // the directive, as ":4"
	directive, err := strconv.Atoi(strings.TrimPrefix(lines[last], ":"))
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return lines[:last], cobra.ShellCompDirective(directive)
}

// value returns the value of a flag that the command line sets once, and "" otherwise.
func value(c *cobra.Command, name string) string {
	f := c.Flag(name)
	if f == nil || !f.Changed {
		return ""
	}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		if all := list.GetSlice(); len(all) == 1 {
			return all[0]
		}
		return ""
	}
	return f.Value.String()
}
