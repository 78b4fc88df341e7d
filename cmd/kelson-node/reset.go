//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"k8s.io/mount-utils"
	"sigs.k8s.io/yaml"

	"kelson.dev/cmd/kelson-node/internal/cluster"
	"kelson.dev/cmd/kelson-node/internal/machine"
	"kelson.dev/cmd/kelson-node/internal/network"
)

func resetCommand() *cobra.Command {
	o := &options{}
	var kubeconfig string
	c := &cobra.Command{
		Use:   "reset",
		Short: "Remove the pods, network and data of the node from this machine",
		Long: `Remove the pods, network and data of the node from this machine.

join must not run. The command stops all pods of the container runtime, removes what
join, kubelet and kube-proxy changed on the machine, and deletes the data directory
with the credentials. With --kubeconfig, of a user who may do so, it also deletes the
Node object; a node may not delete its own. Run kubectl drain first, so that the pods
move to other nodes without an outage.`,
		Example: `  kubectl drain NODE --ignore-daemonsets --delete-emptydir-data
  kelson-node reset --kubeconfig admin.kubeconfig`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			dir, err := filepath.Abs(o.dir)
			if err != nil {
				return err
			}
			if o.dir = dir; dir == "/" {
				return errors.New("--data-dir: must not be the root directory")
			}
			return reset(c.Context(), o, kubeconfig, slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil)))
		},
	}
	c.Flags().StringVar(&o.dir, "data-dir", defaultDir, "the directory that join used")
	c.Flags().StringVar(&kubeconfig, "kubeconfig", "",
		"kubeconfig of an administrator, to delete the Node object (default: it stays)")
	c.Flags().StringVar(&o.wants.Runtime, "runtime-endpoint", "",
		"unix:///SOCKET of the container runtime (default: as for join)")
	c.Flags().StringVar(&o.cni, "cni-config-dir", "/etc/cni/net.d", "directory of CNI configurations")
	return c
}

// reset removes the node. It continues after errors, and joins them. If the Node object can't be
// deleted, it changes nothing.
func reset(ctx context.Context, o *options, kubeconfig string, log *slog.Logger) error {
	if _, err := os.Stat(filepath.Join(o.dir, "kubelet.yaml")); err != nil {
		return fmt.Errorf("%s is not the data directory of a node: %w", o.dir, err)
	}
	unlock, err := lock(o.dir)
	if err != nil {
		return err
	}
	defer unlock()
	if kubeconfig != "" {
		if err := deleteNode(ctx, kubeconfig, cluster.FilesIn(o.dir), log); err != nil {
			return err
		}
	}
	return errors.Join(
		removePods(ctx, o, log),
		removeCgroups(o.dir),
		cleanProxy(ctx),
		network.Remove(ctx, o.cni),
		unmountBelow(o.dir),
		os.RemoveAll(o.dir),
	)
}

// deleteNode deletes the Node object of the node with the credentials in files. A missing Node
// object is not an error.
func deleteNode(ctx context.Context, kubeconfig string, files cluster.Files, log *slog.Logger) error {
	name, err := files.Node()
	if err != nil {
		return fmt.Errorf("read the name of the node: %w", err)
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	if err := client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil &&
		!apierrors.IsNotFound(err) {
		return fmt.Errorf("delete node %s: %w", name, err)
	}
	log.Info("deleted the Node object", "node", name)
	return nil
}

// removeCgroups removes the cgroups below the root in the configuration of the kubelet.
func removeCgroups(dir string) error {
	content, err := os.ReadFile(filepath.Join(dir, "kubelet.yaml"))
	if err != nil {
		return err
	}
	var cfg kubeletconfig.KubeletConfiguration
	if err := yaml.Unmarshal(content, &cfg); err != nil || cfg.CgroupRoot == "" {
		return err
	}
	return machine.RemoveCgroup(cfg.CgroupRoot)
}

// removePods stops and removes all pods. It starts the containerd of the data directory for that.
func removePods(ctx context.Context, o *options, log *slog.Logger) error {
	endpoint := o.wants.Runtime
	if config := filepath.Join(o.dir, "containerd/config.toml"); endpoint == "" {
		if _, err := os.Stat(config); err != nil {
			m, err := machine.Inspect(ctx, machine.Settings{ProxyMode: "none"})
			if m.Runtime == "" {
				return fmt.Errorf("no container runtime runs: %w", err)
			}
			endpoint = m.Runtime
		} else {
			n := &node{options: o, machine: &machine.Machine{}, log: log}
			program, err := exec.LookPath("containerd")
			if err != nil {
				return err
			}
			n.machine.Containerd = program
			p := n.containerdProcess(config)
			running, stop := context.WithCancel(ctx)
			var ended sync.WaitGroup
			ended.Go(func() { _ = p.Run(running, log) }) // an error also makes removePods fail
			defer ended.Wait()
			defer stop()
			if err := n.waitForRuntime(ctx); err != nil {
				return err
			}
			endpoint = n.machine.Runtime
		}
	}
	removed, err := machine.RemovePods(ctx, endpoint)
	log.Info("removed pods", "pods", removed)
	return err
}

// cleanProxy removes the rules of kube-proxy.
func cleanProxy(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, self, "kube-proxy", "--cleanup").CombinedOutput(); err != nil {
		return fmt.Errorf("remove the rules of kube-proxy: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// unmountBelow unmounts everything below a directory, the innermost first.
func unmountBelow(dir string) error {
	all, err := mount.New("").List()
	if err != nil {
		return err
	}
	slices.Reverse(all)
	var errs []error
	for _, m := range all {
		if strings.HasPrefix(m.Path, dir+"/") {
			if err := unix.Unmount(m.Path, unix.MNT_DETACH); err != nil {
				errs = append(errs, fmt.Errorf("unmount %s: %w", m.Path, err))
			}
		}
	}
	return errors.Join(errs...)
}

// lock makes this process the only one that uses the data directory.
func lock(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s is in use by another kelson-node", dir)
	}
	return func() { f.Close() }, nil
}
