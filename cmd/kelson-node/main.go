//go:build linux

// Command kelson-node makes a Linux machine a node of a Kubernetes cluster. It runs Kubernetes' own
// kubelet and kube-proxy with settings that fit the machine, and containerd if no container runtime
// runs yet.
//
//	join      join a cluster and run the node until a signal arrives
//	check     report what the machine lacks
//	reset     remove the node from the machine
//
// The packages below internal: machine inspects the machine and reports what it lacks, cluster
// verifies the server and keeps the credentials, balancer connects to one of several servers,
// network connects the pods, settings writes the configuration files, and run supervises the
// processes.
//
// The module is separate because of its dependencies; no other module of this repository uses it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // registers the metrics of clients
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	// join runs these as separate processes, because both have process-wide settings.
	if len(os.Args) > 1 {
		var component *cobra.Command
		switch os.Args[1] {
		case "kubelet":
			component = kubelet.NewKubeletCommand(context.Background())
		case "kube-proxy":
			component = proxy.NewProxyCommand()
		}
		if component != nil {
			os.Args = os.Args[1:]
			os.Exit(cli.Run(component))
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use:           "kelson-node",
		Short:         "Make this machine a node of a Kubernetes cluster",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(joinCommand(), checkCommand(), resetCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kelson-node:", err)
		os.Exit(1)
	}
}
