// Command ingress-manager gives Services with the annotation ingress/http an Ingress.
package main

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/examples/ingress-manager/internal/controller"
)

func main() {
	// KUBECONFIG, ~/.kube/config, or the cluster that the program runs in
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	flag.StringVar(&rules.ExplicitPath, "kubeconfig", "", "`path` of a kubeconfig file")
	workers := flag.Int("workers", 2, "`number` of Services that are processed concurrently")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err == nil {
		err = controller.Run(ctx, config, *workers)
	}
	if err != nil {
		slog.Error("ingress manager failed", "err", err)
		os.Exit(1)
	}
}
