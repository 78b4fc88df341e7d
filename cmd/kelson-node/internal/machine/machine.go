//go:build linux

// Package machine inspects a machine: which requirements for running a node it meets, and which it
// lacks.
package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Machine describes the parts of a machine that a node uses.
type Machine struct {
	// CgroupVersion is 1 or 2.
	CgroupVersion int
	// Systemd reports whether systemd manages the machine, and so its cgroups.
	Systemd bool
	// Runtime is the endpoint of the running container runtime; "" means none.
	Runtime string
	// Containerd is the program that can be started if there is no Runtime.
	Containerd string
	// Plugins is the directory of the CNI plugins.
	Plugins string
	// ProxyMode is the mode of kube-proxy that works: nftables or iptables.
	ProxyMode string
}

// Settings are the settings that the user chose; Inspect detects the others.
type Settings struct {
	Runtime   string // endpoint
	ProxyMode string // nftables, iptables or none; "" detects it
}

// runtimes are the sockets on which container runtimes listen by default.
var runtimes = []string{"/run/containerd/containerd.sock", "/run/crio/crio.sock", "/run/cri-dockerd.sock"}

// pluginDirs are the folders into which Kubernetes' packages and distributions install CNI plugins.
var pluginDirs = []string{"/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"}

// plugins are the CNI plugins that the network of a node needs.
var plugins = []string{"bridge", "host-local", "portmap", "loopback"}

// Inspect inspects the machine. The error joins an error for each missing requirement, with a
// remedy.
func Inspect(ctx context.Context, wants Settings) (*Machine, error) {
	m := &Machine{Runtime: wants.Runtime, ProxyMode: wants.ProxyMode}
	return m, errors.Join(
		checkRights(),
		m.findCgroups(),
		m.findRuntime(ctx),
		m.findPlugins(),
		m.findProxyMode(ctx),
		checkKernel(),
	)
}

// Try does on the machine what a node does: it mounts file systems, opens settings of the kernel
// for writing, and creates a container and the network of a pod. Inspect cannot see that a
// container or a sandbox around this process forbids that. Try removes everything that it creates.
// The error joins an error for each trial that failed, with a remedy.
func (m *Machine) Try(ctx context.Context) error {
	return errors.Join(checkSettings(), tryMounts(), m.tryContainer(ctx), tryNetwork())
}

// checkRights returns an error if capabilities that kubelet and the runtime need are missing.
func checkRights() error {
	if os.Geteuid() != 0 {
		return errors.New("not root: run kelson-node as root")
	}
	var header = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	var missing []string
	for _, c := range []struct {
		name string
		bit  uint
	}{{"CAP_SYS_ADMIN", unix.CAP_SYS_ADMIN}, {"CAP_NET_ADMIN", unix.CAP_NET_ADMIN},
		{"CAP_SYS_CHROOT", unix.CAP_SYS_CHROOT}, {"CAP_MKNOD", unix.CAP_MKNOD}} {
		if data[c.bit/32].Effective&(1<<(c.bit%32)) == 0 {
			missing = append(missing, c.name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("capabilities are missing: %s: run outside of a container, or in a privileged one",
			strings.Join(missing, ", "))
	}
	return nil
}

const cgroups = "/sys/fs/cgroup"

// controllers are the cgroup controllers that kubelet needs.
var controllers = []string{"cpu", "cpuset", "memory", "pids"}

func (m *Machine) findCgroups() error {
	var fs unix.Statfs_t
	if err := unix.Statfs(cgroups, &fs); err != nil {
		return fmt.Errorf("cgroups: %w: mount them at %s", err, cgroups)
	}
	_, err := os.Stat("/run/systemd/system")
	m.Systemd = err == nil
	var has []string
	if m.CgroupVersion = 1; fs.Type == unix.CGROUP2_SUPER_MAGIC {
		m.CgroupVersion = 2
		content, err := os.ReadFile(filepath.Join(cgroups, "cgroup.controllers"))
		if err != nil {
			return fmt.Errorf("cgroups: %w", err)
		}
		has = strings.Fields(string(content))
	} else {
		entries, err := os.ReadDir(cgroups)
		if err != nil {
			return fmt.Errorf("cgroups: %w", err)
		}
		for _, e := range entries {
			has = append(has, strings.Split(e.Name(), ",")...)
		}
	}
	missing := slices.DeleteFunc(slices.Clone(controllers), func(name string) bool {
		return slices.Contains(has, name)
	})
	if len(missing) > 0 {
		return fmt.Errorf("cgroup controllers are missing: %s: mount them or enable them in the kernel",
			strings.Join(missing, ", "))
	}
	return nil
}

func (m *Machine) findRuntime(ctx context.Context) error {
	if m.Runtime == "" {
		for _, socket := range runtimes {
			if info, err := os.Stat(socket); err == nil && info.Mode()&os.ModeSocket != 0 {
				m.Runtime = "unix://" + socket
				break
			}
		}
	}
	if m.Runtime != "" {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		if err := Ready(ctx, m.Runtime); err != nil {
			return fmt.Errorf("container runtime at %s: %w", m.Runtime, err)
		}
		return nil
	}
	var errs []error
	for _, program := range []string{"containerd", "runc"} {
		at, err := exec.LookPath(program)
		if err != nil {
			errs = append(errs, fmt.Errorf("no container runtime listens at %s, and %s is not installed: install containerd and runc", strings.Join(runtimes, ", "), program))
		}
		if program == "containerd" {
			m.Containerd = at
		}
	}
	return errors.Join(errs...)
}

func (m *Machine) findPlugins() error {
	for _, dir := range pluginDirs {
		missing := slices.DeleteFunc(slices.Clone(plugins), func(name string) bool {
			_, err := os.Stat(filepath.Join(dir, name))
			return err == nil
		})
		if len(missing) == 0 {
			m.Plugins = dir
			return nil
		}
	}
	return fmt.Errorf("the CNI plugins %s are not all in one of the folders %s: install containernetworking-plugins",
		strings.Join(plugins, ", "), strings.Join(pluginDirs, ", "))
}

// tables is a transaction of nftables with what kube-proxy and the network of pods use. It leaves
// nothing behind. The option -c would not pass it to the kernel.
const tables = `add table ip kelson-node-check
add chain ip kelson-node-check in { type nat hook prerouting priority dstnat ; }
add chain ip kelson-node-check out { type nat hook postrouting priority srcnat ; }
add rule ip kelson-node-check in fib daddr type local numgen random mod 2 vmap { 0 : accept, 1 : accept }
add rule ip kelson-node-check out ct state new masquerade
delete table ip kelson-node-check
`

// findProxyMode tries whether the wanted mode of kube-proxy works or, without one, which does.
func (m *Machine) findProxyMode(ctx context.Context) error {
	nft := func() error {
		if _, err := exec.LookPath("nft"); err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, "nft", "-f", "-")
		cmd.Stdin = strings.NewReader(tables)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("nft: %w: %s", err, strings.TrimSpace(string(out)))
		}
		return nil
	}
	iptables := func() error {
		out, err := exec.CommandContext(ctx, "iptables", "-w", "-t", "nat", "-L", "-n").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
		}
		return nil
	}
	switch m.ProxyMode {
	case "nftables":
		if err := nft(); err != nil {
			return fmt.Errorf("nftables does not work: %w: install nftables, or pass another --proxy-mode", err)
		}
		return nil
	case "iptables":
		if err := iptables(); err != nil {
			return fmt.Errorf("iptables does not work: %w: install iptables, or pass another --proxy-mode", err)
		}
		return nil
	case "":
	default:
		return nil
	}
	nftErr := nft()
	if nftErr == nil {
		m.ProxyMode = "nftables"
		return nil
	}
	iptablesErr := iptables()
	if iptablesErr == nil {
		m.ProxyMode = "iptables"
		return nil
	}
	return fmt.Errorf("neither nftables (%w) nor iptables (%w) works, so Services have no addresses: install nftables, or pass --proxy-mode=none", nftErr, iptablesErr)
}

// checkKernel returns an error if files that kubelet, the runtime and the network read are missing.
func checkKernel() error {
	var errs []error
	for _, f := range []struct{ name, remedy string }{
		{"/proc/sys/net/ipv4/ip_forward", "mount /proc"},
		{"/dev/kmsg", "create it, or bind-mount /dev/kmsg"},
	} {
		if _, err := os.Stat(f.name); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w: %s", f.name, errors.Unwrap(err), f.remedy))
		}
	}
	mounted, err := os.ReadFile("/proc/filesystems")
	if err == nil && !strings.Contains(string(mounted), "\toverlay\n") {
		if out, err := exec.Command("modprobe", "overlay").CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("the kernel has no overlay file system (modprobe overlay: %v: %s)", err,
				strings.TrimSpace(string(out))))
		}
	}
	return errors.Join(errs...)
}
