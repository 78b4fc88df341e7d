package main

import (
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
)

// kubectl is the upstream kubectl, linked in. args begins with "kubectl"; invoked is the path that this binary was called by.
func kubectl(invoked string, args []string) int {
	os.Args = args // kubectl looks for plugins and its own name there
	// The parsing of flags sets it too, but only after plugins were looked for and kuberc was read, which log.
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args))
	command := cmd.NewDefaultKubectlCommandWithArgs(cmd.KubectlOptions{
		PluginHandler: pluginHandler{cmd.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes), invoked},
		Arguments:     os.Args,
		IOStreams:     genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr},
	})
	if err := cli.RunNoErrOutput(command); err != nil {
		util.CheckErr(err) // prints as kubectl does, and exits
	}
	return 0
}

// pluginHandler runs plugins of kubectl. If this binary was called by the name kubectl, plugins call it by that name too.
type pluginHandler struct {
	cmd.PluginHandler
	invoked string
}

func (p pluginHandler) Execute(path string, args, environment []string) error {
	if filepath.Base(p.invoked) == "kubectl" {
		if self, err := exec.LookPath(p.invoked); err == nil {
			if self, err = filepath.Abs(self); err == nil {
				environment = slices.DeleteFunc(environment, func(v string) bool { return strings.HasPrefix(v, "KUBECTL_PATH=") })
				environment = append(environment, "KUBECTL_PATH="+self)
			}
		}
	}
	return p.PluginHandler.Execute(path, args, environment)
}

// kubectlHelp makes the command show in the list; main carries it out.
func kubectlHelp() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl",
		Short:              "The upstream kubectl, linked in",
		DisableFlagParsing: true,
		Run:                func(*cobra.Command, []string) {},
	}
}
