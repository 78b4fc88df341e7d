//go:build linux

package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"kelson.dev/kubernetes/node"
)

// inherit opens a file as if this process had inherited it: without the close-on-exec flag.
func inherit(t *testing.T, path string) (fd int) {
	t.Helper()
	fd, err := syscall.Open(path, syscall.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	return fd
}

// Pods do not inherit file descriptors that their agent inherited. A directory among them would
// lead out of their root directories.
func TestDescriptorsAreNotInherited(t *testing.T) {
	secretFile := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secretFile, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, config := range []Config{{}, {Unconfined: true}} {
		t.Run(fmt.Sprintf("unconfined %t", config.Unconfined), func(t *testing.T) {
			config.Root = t.TempDir()
			r, err := New(config)
			if err != nil {
				t.Fatal(err)
			}
			// opened after New, as by other parts of the program
			fds := []int{inherit(t, secretFile), inherit(t, "/")}
			script := "echo begin; "
			for _, fd := range fds {
				script += fmt.Sprintf("readlink /proc/self/fd/%[1]d; cat /proc/self/fd/%[1]d; ls /proc/self/fd/%[1]d/; ", fd)
			}
			script = "{ " + script + "} 2> /dev/null; echo end"
			for _, tty := range []bool{false, true} {
				spec := shell(script + "; sleep 300")
				spec.Container.TTY = tty
				s, err := r.Sandbox(t.Context(), spec.Pod)
				if err != nil {
					t.Fatal(err)
				}
				c, err := s.Start(t.Context(), spec)
				if err != nil {
					t.Fatal(err)
				}
				most := int64(len("begin\nend\n"))
				if tty {
					most = int64(len("begin\r\nend\r\n"))
				}
				log := logOf(t, c, corev1.PodLogOptions{Follow: true, LimitBytes: &most})
				if got := strings.ReplaceAll(log, "\r", ""); got != "begin\nend\n" {
					t.Errorf("terminal %t: container: %q", tty, got)
				}
				var out strings.Builder
				err = c.(node.Executor).Exec(t.Context(), []string{"sh", "-c", script},
					node.Streams{Stdout: &out, TTY: tty})
				if got := strings.ReplaceAll(out.String(), "\r", ""); got != "begin\nend\n" || err != nil {
					t.Errorf("terminal %t: exec: %q, %v", tty, got, err)
				}
				if err := s.Remove(); err != nil {
					t.Fatal(err)
				}
				for _, fd := range fds { // a later process must not depend on the marks of this one
					if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// Without the system call for all descriptors at once, they are marked one by one.
func TestMarkDescriptors(t *testing.T) {
	fd := inherit(t, "/")
	if err := markDescriptors("/proc/self/fd"); err != nil {
		t.Fatal(err)
	}
	for fd, want := range map[int]int{fd: unix.FD_CLOEXEC, 2: 0} {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags != want {
			t.Errorf("descriptor %d has the flags %d, want %d, %v", fd, flags, want, err)
		}
	}
	if err := markDescriptors("/no/such/directory"); err == nil {
		t.Error("want an error")
	}
}
