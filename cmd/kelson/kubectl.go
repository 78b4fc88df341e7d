package main

import (
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

// kubectl is the upstream kubectl, linked in. args begins with "kubectl".
func kubectl(args []string) int {
	os.Args = args // kubectl looks for plugins and its own name there
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints as kubectl does, and exits
	}
	return 0
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
