//go:build linux

package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// trialTime bounds each of the trials, which take less than a second on an idle machine.
const trialTime = 30 * time.Second

// tryMounts mounts what containers have, on the machine's own mount table: an overlay file system
// for the image, and a tmpfs for Secrets. It returns an error if the kernel or the container that
// this program runs in refuses one.
func tryMounts() (err error) {
	dir, err := os.MkdirTemp("", "kelson-node-check-")
	if err != nil {
		return fmt.Errorf("create a directory for trial mounts: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := mounted("tmpfs", dir, ""); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Unmount(dir, unix.MNT_DETACH)) }()
	var layers []string
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		layers = append(layers, filepath.Join(dir, name))
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			return err
		}
	}
	if err := mounted("overlay", layers[3], fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", layers[0], layers[1],
		layers[2])); err != nil {
		return err
	}
	return unix.Unmount(layers[3], 0)
}

func mounted(kind, at, options string) error {
	if err := unix.Mount(kind, at, kind, 0, options); err != nil {
		return fmt.Errorf("this process cannot mount file systems of type %s: %w: run outside of a container, or in a privileged one", kind, err)
	}
	return nil
}

// tryContainer creates a container with runc, and deletes it: with a cgroup, with namespaces as
// those of a pod, and with the usual mounts. The container has no program, so it is not started. If
// runc is not installed, tryContainer does nothing: another runtime may run.
func (m *Machine) tryContainer(ctx context.Context) (err error) {
	runc, lookErr := exec.LookPath("runc")
	if lookErr != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	dir, err := os.MkdirTemp("", "kelson-node-check-")
	if err != nil {
		return fmt.Errorf("create a directory for a trial container: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	name := "kelson-node-check-" + strconv.Itoa(os.Getpid())
	// The program is an empty file: runc finds it, and waits for the command to execute it.
	root := filepath.Join(dir, "rootfs")
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "program"), nil, 0o755); err != nil {
		return err
	}
	cgroup := "/" + name
	if m.Systemd && m.CgroupVersion == 2 {
		cgroup = "system.slice:kelson:" + name
	}
	spec, err := json.Marshal(trialSpec(cgroup))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), spec, 0o600); err != nil {
		return err
	}
	runs := func(args ...string) error {
		global := []string{"--root", filepath.Join(dir, "state")}
		if strings.Contains(cgroup, ":") {
			global = append(global, "--systemd-cgroup")
		}
		// The container inherits the output and keeps it open, so it must be a file.
		output, err := os.Create(filepath.Join(dir, "output"))
		if err != nil {
			return err
		}
		defer output.Close()
		cmd := exec.CommandContext(ctx, runc, append(global, args...)...)
		cmd.Stdout, cmd.Stderr = output, output
		if err := cmd.Run(); err != nil {
			text, _ := os.ReadFile(output.Name())
			return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(text)))
		}
		return nil
	}
	err = runs("create", "--bundle", dir, name)
	if err != nil {
		err = fmt.Errorf("runc cannot create a container: %w: run outside of a container, or in a privileged one", err)
	}
	// A container that runc could not create may have left a cgroup or a process.
	if deleteErr := runs("delete", "--force", name); deleteErr != nil && err == nil {
		err = fmt.Errorf("runc cannot delete a container: %w", deleteErr)
	}
	return err
}

// trialSpec is the configuration of a container in the format of the Open Container Initiative.
func trialSpec(cgroup string) map[string]any {
	type object = map[string]any
	var namespaces []object
	for _, kind := range []string{"pid", "ipc", "uts", "mount", "network"} {
		namespaces = append(namespaces, object{"type": kind})
	}
	mount := func(kind, at string, options ...string) object {
		return object{"type": kind, "source": kind, "destination": at, "options": options}
	}
	return object{
		"ociVersion": "1.0.2",
		"root":       object{"path": "rootfs"},
		"hostname":   "check",
		"process": object{"args": []string{"/program"}, "cwd": "/", "user": object{"uid": 0, "gid": 0},
			"noNewPrivileges": true},
		"mounts": []object{
			mount("proc", "/proc"), mount("tmpfs", "/dev", "nosuid"),
			mount("devpts", "/dev/pts", "newinstance", "ptmxmode=0666"),
			mount("mqueue", "/dev/mqueue", "nosuid"), mount("sysfs", "/sys", "ro"),
			mount("cgroup", "/sys/fs/cgroup", "ro"),
		},
		"linux": object{
			"namespaces":  namespaces,
			"cgroupsPath": cgroup,
			"resources": object{"memory": object{"limit": 64 << 20}, "pids": object{"limit": 64},
				"devices": []object{{"allow": false, "access": "rwm"}}},
			"maskedPaths": []string{"/proc/kcore"}, "readonlyPaths": []string{"/proc/sys"},
		},
	}
}

// tryNetwork creates what the network of pods consists of: a network namespace with a bridge and a
// pair of interfaces. The namespace ends with the trial, and the machine's own network does not
// change.
func tryNetwork() error {
	failed := make(chan error)
	go func() {
		// The thread is not unlocked, so it ends with the goroutine, and the namespace with it.
		runtime.LockOSThread()
		failed <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("create a network namespace: %w", err)
			}
			bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "bridge0"}}
			if err := netlink.LinkAdd(bridge); err != nil {
				return fmt.Errorf("create a bridge: %w", err)
			}
			pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "veth0", MasterIndex: bridge.Attrs().Index},
				PeerName: "veth1"}
			if err := netlink.LinkAdd(pair); err != nil {
				return fmt.Errorf("create a pair of virtual interfaces: %w", err)
			}
			return nil
		}()
	}()
	if err := <-failed; err != nil {
		return fmt.Errorf("this process cannot create the network of a pod: %w: run outside of a container, or in a privileged one; load the kernel modules bridge and veth", err)
	}
	return nil
}

// settings are files in /proc/sys that the kubelet and the network write.
var settings = []string{"net/ipv4/ip_forward", "vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops"}

// checkSettings returns an error if the settings of the kernel are read-only, as in containers. It
// does not change them.
func checkSettings() error {
	for _, name := range settings {
		file, err := os.OpenFile(filepath.Join("/proc/sys", name), os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("settings of the kernel cannot be written: %w: mount /proc/sys writable", err)
		}
		file.Close()
	}
	return nil
}
