// Package kubectl runs the upstream kubectl, which is linked into this binary.
package kubectl

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
	"k8s.io/kubectl/pkg/cmd/util"

	"kelson.dev/cmd/kelson/internal/completion"
	"kelson.dev/cmd/kelson/internal/output"
)

// Run runs kubectl and returns its exit code; on errors it exits the process as kubectl does. args
// begins with "kubectl"; invoked is the path by which this binary was called. Run sets os.Args.
func Run(invoked string, args []string) int {
	os.Args = args // kubectl takes its own name and the names of plugins from os.Args
	// Set the verbosity early: kubectl logs while it looks for plugins and reads kuberc, before it
	// parses flags.
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args))
	command := cmd.NewDefaultKubectlCommandWithArgs(cmd.KubectlOptions{
		PluginHandler: pluginHandler{cmd.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes), invoked},
		Arguments:     os.Args,
		IOStreams:     genericiooptions.IOStreams{In: os.Stdin, Out: stdout(args), ErrOut: os.Stderr},
	})
	if err := cli.RunNoErrOutput(command); err != nil {
		util.CheckErr(err) // prints the error as kubectl does and exits
	}
	return 0
}

// stdout returns the standard output. The commands that print objects escape on a terminal what
// could deceive its user; the output of others, such as exec and logs, is a program's own.
func stdout(args []string) io.Writer {
	terminal := output.TerminalOf(os.Stdout)
	if terminal == nil || !slices.Contains([]string{"get", "describe", "events", "top", "diff"}, verb(args)) {
		return os.Stdout
	}
	return terminal
}

// verb returns the command in kubectl's arguments. After a flag that has no value, it may return
// the argument after the command.
func verb(args []string) string {
	value := false // the argument may be the value of the flag before it
	for _, arg := range args[1:] {
		switch flag := strings.HasPrefix(arg, "-"); {
		case flag:
			value = !strings.Contains(arg, "=")
		case !value:
			return arg
		default:
			value = false
		}
	}
	return ""
}

// pluginHandler runs plugins of kubectl. If this binary was called as kubectl, KUBECTL_PATH tells
// plugins to call it by the same path.
type pluginHandler struct {
	cmd.PluginHandler
	invoked string
}

func (p pluginHandler) Execute(path string, args, environment []string) error {
	if filepath.Base(p.invoked) == "kubectl" {
		if self, err := exec.LookPath(p.invoked); err == nil {
			if self, err = filepath.Abs(self); err == nil {
				environment = slices.DeleteFunc(environment, func(v string) bool {
					return strings.HasPrefix(v, "KUBECTL_PATH=")
				})
				environment = append(environment, "KUBECTL_PATH="+self)
			}
		}
	}
	return p.PluginHandler.Execute(path, args, environment)
}

// Command returns a command that makes kubectl appear in the help. main calls Run instead of
// executing it.
func Command() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl",
		Short:              "The upstream kubectl, linked in",
		Example:            "  kelson kubectl get pods -A\n  KUBECONFIG=./kubeconfig kelson kubectl apply -f pod.yaml",
		DisableFlagParsing: true,
		ValidArgsFunction:  complete,
		Run:                func(*cobra.Command, []string) {},
	}
}

// complete gets completions from kubectl.
func complete(c *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return completion.Kubectl(c, append(slices.Clone(args), toComplete)...)
}
