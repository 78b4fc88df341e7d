//go:build linux

package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// here is set in the processes that TestTry starts in other environments.
const here = "KELSON_NODE_TRY"

func try(ctx context.Context, mode string) error {
	m, err := Inspect(ctx, Settings{ProxyMode: mode})
	return errors.Join(err, m.Try(ctx))
}

// kelson-node check tries what a node does, and names what the environment forbids.
func TestTry(t *testing.T) {
	mode, child := os.LookupEnv(here)
	if child {
		fmt.Println(try(t.Context(), mode))
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: needs root")
	}
	if err := try(t.Context(), "nftables"); err != nil {
		t.Skipf("SKIPPED: this machine cannot run a node: %v", err)
	}
	for _, c := range []struct {
		name, command string // the command ends with "$@", the test
		mode          string
		want          []string
	}{
		{"a machine", `exec "$@"`, "", []string{"<nil>"}},
		{"without CAP_NET_ADMIN", `exec setpriv --bounding-set -net_admin "$@"`, "", []string{
			"capabilities are missing: CAP_NET_ADMIN", "neither nftables (nft: exit status 1",
			"cannot create the network of a pod: create a bridge: operation not permitted"}},
		{"without CAP_SYS_ADMIN", `exec setpriv --bounding-set -sys_admin "$@"`, "", []string{
			"capabilities are missing: CAP_SYS_ADMIN",
			"cannot mount file systems of type tmpfs: operation not permitted",
			"runc cannot create a container", "create a network namespace: operation not permitted"}},
		{"without nft and iptables", `export PATH=/nonexistent && exec "$@"`, "",
			[]string{`nft": executable file not found`, "install nftables"}},
		{"without nft", `export PATH=/nonexistent && exec "$@"`, "nftables",
			[]string{`nftables does not work: exec: "nft": executable file not found in $PATH`}},
		{"a user namespace", `exec unshare --user --map-root-user "$@"`, "",
			[]string{"neither nftables (nft: ", "cannot mount file systems of type tmpfs"}},
		{"read-only cgroups", `exec unshare --mount sh -c 'for at in $(grep -o " /sys/fs/cgroup[^ ]*" /proc/mounts); do mount -o remount,bind,ro $at; done; exec "$@"' sh "$@"`, "",
			[]string{"runc cannot create a container: ", "read-only file system"}},
		{"read-only settings", `exec unshare --mount sh -c 'mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys; exec "$@"' sh "$@"`, "",
			[]string{"settings of the kernel cannot be written: open /proc/sys/net/ipv4/ip_forward: read-only file system: mount /proc/sys writable"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "sh", "-c", c.command, "sh", os.Args[0], "-test.run=^TestTry$")
			cmd.Env = append(os.Environ(), here+"="+c.mode)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for _, want := range c.want {
				if !strings.Contains(string(out), want) {
					t.Errorf("want %q in\n%s", want, out)
				}
			}
		})
	}
	for _, pattern := range []string{"/sys/fs/cgroup/kelson-node-check-*", "/sys/fs/cgroup/*/kelson-node-check-*",
		filepath.Join(os.TempDir(), "kelson-node-check-*")} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			t.Errorf("trials left %v", left)
		}
	}
}

// A trial that hangs ends with its context.
func TestTryHangs(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "runc"), []byte("#!/bin/sh\nexec sleep 60\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if err := (&Machine{}).tryContainer(ctx); err == nil ||
		!strings.Contains(err.Error(), "runc cannot create a container: signal: killed") ||
		time.Since(begin) > 30*time.Second {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
}
