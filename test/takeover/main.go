// Command takeover runs Kubernetes' own kube-controller-manager and kube-scheduler as processes
// with `kelson serve --controllers=-*`, and checks that they do all the work of the built-in
// controllers and scheduler. Then it runs an external cloud-controller-manager with `kelson serve
// --cloud-provider=external`.
//
//	go build -o bin/components/ ./bench/components/... && go run ./test/takeover -kelson bin/kelson -components bin/components
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/test/child"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("takeover: ")
	kelson := flag.String("kelson", "bin/kelson", "the kelson binary")
	components := flag.String("components", "bin/components",
		"folder with kube-controller-manager, kube-scheduler and cloud-controller-manager")
	limit := flag.Duration("limit", 4*time.Minute, "end after this time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	if err := takeover(ctx, *kelson, *components); err != nil {
		stop()
		log.Fatal(err)
	}
}

func takeover(ctx context.Context, kelson, components string) error {
	dir, err := os.MkdirTemp("", "takeover-")
	if err != nil {
		return err
	}
	err = controllers(ctx, dir, kelson, components)
	if err == nil {
		err = cloud(ctx, dir, kelson, components)
	}
	if err != nil {
		return fmt.Errorf("%w\nthe logs are in %s", err, dir)
	}
	return os.RemoveAll(dir)
}

// controllers runs kube-controller-manager and kube-scheduler.
func controllers(ctx context.Context, dir, kelson, components string) error {
	port, err := child.FreePort()
	if err != nil {
		return err
	}
	data := filepath.Join(dir, "data")
	config := filepath.Join(dir, "kubeconfig")
	server, err := child.Start(dir, kelson, "serve", "--data-dir", data, "--kubeconfig", config, "--secure-port", port,
		"--node", "simulated", "--workloads=false", "--controllers=-*")
	if err != nil {
		return err
	}
	defer server.Stop(10 * time.Second)
	c, err := connect(ctx, config, server)
	if err != nil {
		return err
	}
	if err := c.nothingHappens(ctx); err != nil {
		return err
	}
	stopping := make(chan struct{})
	for name, args := range arguments(config, data) {
		process, err := child.Start(dir, filepath.Join(components, name), args...)
		if err != nil {
			return err
		}
		defer process.Stop(10 * time.Second)
		go func() {
			select {
			case <-process.Done:
				log.Printf("%s ended:\n%s", name, process.Output())
			case <-stopping:
			}
		}()
	}
	defer close(stopping) // before the processes are stopped
	return c.everythingHappens(ctx)
}

// arguments returns the flags of the components, which get only three files of the control plane:
// the kubeconfig, its authority and the key of service accounts.
func arguments(config, data string) map[string][]string {
	authority, key := filepath.Join(data, "pki", "ca.crt"), filepath.Join(data, "pki", "ca.key")
	common := []string{"--kubeconfig", config, "--authentication-kubeconfig", config, "--authorization-kubeconfig",
		config, "--leader-elect=false", "--bind-address=127.0.0.1"}
	return map[string][]string{
		"kube-controller-manager": append(common, "--root-ca-file", authority, "--cluster-signing-cert-file", authority,
			"--cluster-signing-key-file", key,
			"--service-account-private-key-file", filepath.Join(data, "pki", "sa.key"),
			"--use-service-account-credentials=true",
			"--node-monitor-grace-period=50s", "--horizontal-pod-autoscaler-sync-period=5s"),
		"kube-scheduler": common,
	}
}

// connect returns a client when the server is ready.
func connect(ctx context.Context, config string, server *child.Process) (*cluster, error) {
	for {
		if rest, err := clientcmd.BuildConfigFromFlags("", config); err == nil {
			rest.QPS = -1
			client, err := kubernetes.NewForConfig(rest)
			if err != nil {
				return nil, err
			}
			if _, err = client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err == nil {
				return &cluster{client}, nil
			}
		}
		select {
		case <-server.Done:
			return nil, fmt.Errorf("the server ended:\n%s", server.Output())
		case <-ctx.Done():
			return nil, fmt.Errorf("the server is not ready: %w\n%s", ctx.Err(), server.Output())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
