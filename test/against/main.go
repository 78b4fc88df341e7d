// Command against runs a command against its own kube-apiserver and etcd, which end with the
// command. KUBECONFIG, and KELSON_TEST_KUBECONFIG for tests that support both servers, name an
// administrator's kubeconfig.
//
//	go build -o bin/peers/ ./bench/peers/...
//	go run ./test/against -- kubectl get namespaces
//
// Only the API server runs: no controller manager, scheduler or kubelet. Dependents are not
// collected, and pods stay Pending.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/apiserver/pki"
	"kelson.dev/test/child"
	"kelson.dev/test/peers"
)

func main() {
	binaries := flag.String("peers", "bin/peers", "folder with etcd and kube-apiserver")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "against: want a command")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, *binaries, flag.Args())
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() > 0 {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "against:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binaries string, command []string) error {
	dir, err := os.MkdirTemp("", "kelson-against-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	port, err := child.FreePort()
	if err != nil {
		return err
	}
	config, err := writeKeys(dir, "https://127.0.0.1:"+port)
	if err != nil {
		return fmt.Errorf("write keys: %w", err)
	}
	etcd, etcdURL, err := peers.Etcd(binaries, dir, "--unsafe-no-fsync")
	if err != nil {
		return err
	}
	defer etcd.Stop(10 * time.Second)
	file := func(name string) string { return filepath.Join(dir, name) }
	api, err := peers.APIServer(binaries, dir, dir, etcdURL, port,
		"--requestheader-client-ca-file", file("proxy-ca.crt"), "--requestheader-allowed-names", "aggregator",
		"--requestheader-username-headers", "X-Remote-User", "--requestheader-group-headers", "X-Remote-Group",
		"--requestheader-extra-headers-prefix", "X-Remote-Extra-",
		"--proxy-client-cert-file", file("proxy.crt"), "--proxy-client-key-file", file("proxy.key"))
	if err != nil {
		return err
	}
	defer api.Stop(10 * time.Second)
	if err := ready(ctx, api, config); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "KUBECONFIG="+file("kubeconfig"), "KELSON_TEST_KUBECONFIG="+file("kubeconfig"))
	return cmd.Run()
}

// writeKeys creates the keys of the server and of an administrator, and the administrator's
// kubeconfig.
func writeKeys(dir, url string) (*rest.Config, error) {
	authority, err := peers.WriteKeys(dir, "against")
	if err != nil {
		return nil, err
	}
	admin, err := authority.Client("admin", "system:masters")
	if err != nil {
		return nil, err
	}
	proxies, err := pki.NewAuthority("against-front-proxy")
	if err != nil {
		return nil, err
	}
	proxy, err := proxies.Client("aggregator")
	if err != nil {
		return nil, err
	}
	kubeconfig := peers.Kubeconfig(url, authority, admin)
	if err := errors.Join(peers.WritePair(dir, "proxy", proxy),
		os.WriteFile(filepath.Join(dir, "proxy-ca.crt"), proxies.PEM, 0o600),
		clientcmd.WriteToFile(*kubeconfig, filepath.Join(dir, "kubeconfig"))); err != nil {
		return nil, err
	}
	return clientcmd.NewDefaultClientConfig(*kubeconfig, nil).ClientConfig()
}

// ready waits until the server is ready and has created the default namespace.
func ready(ctx context.Context, p *child.Process, config *rest.Config) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	return p.Await(ctx, 2*time.Minute, func(ctx context.Context) error {
		return errors.Join(found(ctx, client, config.Host+"/readyz"),
			found(ctx, client, config.Host+"/api/v1/namespaces/default"))
	})
}

func found(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}
