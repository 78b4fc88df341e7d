//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The second node is a network namespace, connected to that of the server like another machine.
const (
	farNamespace = "far"
	nearAddress  = "10.98.8.1"
	farAddress   = "10.98.8.2"
	dnsAddress   = "10.96.0.10"
	registryPort = "5000"
	serverPort   = "6443"
)

// isolate runs this command again in process, mount and network namespaces of its own, and waits
// for it. When it ends, the kernel ends all processes and removes all mounts and networks of the
// cluster. The first process is a shell, because it reaps the orphans of containerd.
func isolate(ctx context.Context) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	c := exec.CommandContext(ctx, "/bin/bash",
		append([]string{"-c", `"$@" & pid=$!; trap 'kill $pid' TERM INT; wait $pid; code=$?; wait $pid 2>/dev/null; exit $code`, "bash", own, "-inside"}, os.Args[1:]...)...)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL,
	}
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = time.Minute
	return c.Run()
}

// removeCgroups removes the cgroups of the nodes, which remain after the namespaces have ended.
// Leftover cgroups are harmless.
func removeCgroups() {
	for _, node := range []string{"near", "far"} {
		roots, _ := filepath.Glob("/sys/fs/cgroup/*/kelson-" + node)
		for _, root := range roots {
			var dirs []string
			_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					dirs = append(dirs, path)
				}
				return nil
			})
			for _, dir := range slices.Backward(dirs) {
				_ = os.Remove(dir)
			}
		}
	}
}

// prepareNamespaces mounts the file systems that the namespaces need, and creates the network
// namespace of the second node.
func prepareNamespaces(ctx context.Context) error {
	// Mounts must not propagate to the machine, but those of kubelets must propagate to containers.
	for _, propagation := range []uintptr{unix.MS_SLAVE, unix.MS_SHARED} {
		if err := unix.Mount("", "/", "", unix.MS_REC|propagation, ""); err != nil {
			return fmt.Errorf("change the propagation of mounts: %w", err)
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	for _, dir := range []string{"/var/lib/cni", "/run/netns", "/var/lib/kubelet", "/var/log/containers", mirrors} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("mount %s: %w", dir, err)
		}
		if err := unix.Mount("", dir, "", unix.MS_SHARED, ""); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"netns", "add", farNamespace},
		{"link", "add", "near0", "type", "veth", "peer", "name", "far0", "netns", farNamespace},
		{"address", "add", nearAddress + "/24", "dev", "near0"},
		{"link", "set", "near0", "up"},
		{"route", "add", "default", "via", farAddress},
		{"-n", farNamespace, "address", "add", farAddress + "/24", "dev", "far0"},
		{"-n", farNamespace, "link", "set", "far0", "up"},
		{"-n", farNamespace, "link", "set", "lo", "up"},
		{"-n", farNamespace, "route", "add", "default", "via", nearAddress},
	} {
		if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// cluster is kelson serve with a node on the same machine, and a second node.
type cluster struct {
	options
	kubeconfig string
	processes  []*exec.Cmd
}

func (c *cluster) path(name string) string { return filepath.Join(c.work, name) }

// startCluster starts the server and the nodes with an empty state, and waits until they and the
// DNS are ready.
func (o options) startCluster(ctx context.Context) (_ *cluster, err error) {
	c := &cluster{options: o, kubeconfig: filepath.Join(o.work, "kubeconfig")}
	defer func() {
		if err != nil {
			c.stop()
		}
	}()
	for _, dir := range []string{"state", "far", "near-cni", "far-cni"} {
		if err := os.RemoveAll(c.path(dir)); err != nil {
			return nil, err
		}
	}
	node := []string{"--images=" + c.path("images"), "--pause-image=" + pauseImage, "--cluster-dns=" + dnsAddress,
		"--proxy-mode=nftables"}
	if err := c.start("kelson", append([]string{filepath.Join(o.bin, "kelson"), "serve",
		"--data-dir=" + c.path("state"), "--kubeconfig=" + c.kubeconfig,
		"--node=containers", "--bind-address=0.0.0.0", "--advertise-address=" + nearAddress,
		"--secure-port=" + serverPort,
		"--cluster-cidr=10.244.0.0/16", "--service-cluster-ip-range=10.96.0.0/16", "--",
		"--name=near", "--node-ip=" + nearAddress, "--cni-config-dir=" + c.path("near-cni")}, node...)...); err != nil {
		return nil, err
	}
	if err := c.eventually(ctx, "the server is ready", func() bool {
		return c.says(ctx, "ok", "get", "--raw", "/readyz")
	}); err != nil {
		return nil, err
	}
	line, err := c.kubectl(ctx, "", "token", "create", "--kubeconfig="+c.kubeconfig,
		"--server=https://"+nearAddress+":"+serverPort)
	if err != nil {
		return nil, err
	}
	join := append([]string{"nsenter", "--net=/run/netns/" + farNamespace, filepath.Join(o.bin, "kelson-node")},
		strings.Fields(line)[1:]...)
	join = append(join, "--name=far", "--node-ip="+farAddress, "--cni-config-dir="+c.path("far-cni"),
		"--data-dir="+c.path("far"))
	if err := c.start("far", append(join, node...)...); err != nil {
		return nil, err
	}
	if err := c.eventually(ctx, "both nodes are ready", func() bool {
		out, _ := c.kubectl(ctx, "", "kubectl", "--kubeconfig="+c.kubeconfig, "get", "nodes")
		return strings.Count(out, " Ready ") == 2
	}); err != nil {
		return nil, err
	}
	if out, err := c.kubectl(ctx, dnsManifest, "kubectl", "--kubeconfig="+c.kubeconfig, "apply", "-f",
		"-"); err != nil {
		return nil, fmt.Errorf("apply the DNS: %w: %s", err, out)
	}
	return c, c.eventually(ctx, "the DNS is ready", func() bool {
		return c.says(ctx, "2", "get", "deployment", "coredns", "-n", "kube-system", "-o",
			"jsonpath={.status.readyReplicas}")
	})
}

// start starts a process whose output goes to a log of its name.
func (c *cluster) start(name string, args ...string) error {
	output, err := os.Create(c.path(name + ".log"))
	if err != nil {
		return err
	}
	defer output.Close() // the process has its own descriptor
	p := exec.Command(args[0], args[1:]...)
	p.Env = append(os.Environ(), "PATH="+c.bin+":"+os.Getenv("PATH"))
	p.Stdout, p.Stderr = output, output
	if err := p.Start(); err != nil {
		return err
	}
	c.processes = append(c.processes, p)
	return nil
}

// stop ends the processes, the last first. The containers end with the namespaces.
func (c *cluster) stop() {
	for i := len(c.processes) - 1; i >= 0; i-- {
		p := c.processes[i]
		_ = p.Process.Signal(syscall.SIGTERM)
		if err := p.Wait(); err != nil {
			log.Printf("%s: %v", filepath.Base(p.Path), err)
		}
	}
}

// kubectl runs kelson with an input and returns its output.
func (c *cluster) kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	k := exec.CommandContext(ctx, filepath.Join(c.bin, "kelson"), args...)
	k.Stdin = strings.NewReader(stdin)
	out, err := k.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return string(out), err
}

func (c *cluster) says(ctx context.Context, want string, args ...string) bool {
	out, err := c.kubectl(ctx, "", append([]string{"kubectl", "--kubeconfig=" + c.kubeconfig}, args...)...)
	return err == nil && strings.TrimSpace(out) == want
}

// eventually waits until a condition holds: importing the images takes minutes on a busy machine.
func (c *cluster) eventually(ctx context.Context, what string, holds func() bool) error {
	for deadline := time.Now().Add(10 * time.Minute); !holds(); {
		if time.Now().After(deadline) {
			return fmt.Errorf("not within 10 minutes: %s; the logs are in %s", what, c.work)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
	log.Print(what)
	return nil
}
