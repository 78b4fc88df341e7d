package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mountPoint is where, below Config.Root, root directories are mounted while they are made. Each is visible in its own mount namespace only.
const mountPoint = ".root"

// podTmp is the /tmp of a pod, in the pod's directory.
const podTmp = ".tmp"

// view is the root directory that a container sees:
//
//	/usr /bin /lib /etc /opt …   the machine's, read-only, without Hidden
//	/proc                        without the processes of other users; in a user namespace, with them
//	/sys                         read-only
//	/dev                         null, zero, full, random, urandom, tty, terminals and shared memory of its own
//	/tmp /var/tmp                Tmp, or a small one in memory
//	Dir                          the container's directory, at its own path
//
// Everything else does not exist in it.
type view struct {
	Mount  string // an empty directory
	Dir    string
	Tmp    string
	Hidden []string
}

// systemDirs are shown as far as they exist, read-only.
var systemDirs = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/sys",
	"/nix/store", "/gnu/store", "/run/current-system", "/var/lib/ca-certificates",
}

// alwaysHidden hold credentials of clusters, sometimes readable by everyone.
var alwaysHidden = []string{"/etc/kubernetes", "/etc/rancher"}

var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// enter makes the view the root directory of the calling thread's mount namespace, which must be the caller's own. root says that the caller
// has all rights on the machine, rather than in a user namespace.
func (v *view) enter(root bool) error {
	// Nothing that is mounted here shows elsewhere.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("separate the mount namespace: %w", err)
	}
	if err := unix.Mount("tmpfs", v.Mount, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m"); err != nil {
		return fmt.Errorf("mount root directory: %w", err)
	}
	for _, part := range []func() error{v.system, v.hide, v.devices, func() error { return v.proc(root) }, v.own, v.pivot} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// at is where a path of the view is before the view is the root directory.
func (v *view) at(path string) string { return filepath.Join(v.Mount, path) }

// system shows the system's directories.
func (v *view) system() error {
	for _, dir := range systemDirs {
		info, err := os.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(dir)
			if err == nil {
				if err = os.MkdirAll(filepath.Dir(v.at(dir)), 0o755); err == nil {
					err = os.Symlink(target, v.at(dir))
				}
			}
			if err != nil {
				return err
			}
			continue
		}
		if err := v.bind(dir, dir, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV); err != nil {
			return err
		}
	}
	// Where names are looked up is often said by a file in /run.
	if target, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil && !v.shown(target) {
		return v.bind(target, target, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	}
	return nil
}

func (v *view) shown(path string) bool {
	return slices.ContainsFunc(systemDirs, func(dir string) bool { return isBelow(path, dir) })
}

// bind shows a directory or file of the machine at a path of the view.
func (v *view) bind(from, to string, attributes uint64) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	target := v.at(to)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else if _, there := os.Lstat(target); there != nil {
		err = os.WriteFile(target, nil, 0o644)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(from, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("show %s: %w", from, err)
	}
	if attributes == 0 {
		return nil
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, target, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attributes}); err != nil {
		return fmt.Errorf("show %s read-only: %w", from, err)
	}
	return nil
}

// hide covers what must not be seen of the system's directories.
func (v *view) hide() error {
	for _, path := range slices.Concat(alwaysHidden, v.Hidden) {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue // it does not exist, so there is nothing to see
		}
		if !v.shown(real) {
			continue
		}
		info, err := os.Stat(real)
		if err != nil {
			return err
		}
		if info.IsDir() {
			err = unix.Mount("tmpfs", v.at(real), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m")
		} else {
			err = unix.Mount("/dev/null", v.at(real), "", unix.MS_BIND, "")
		}
		if err != nil {
			return fmt.Errorf("hide %s: %w", real, err)
		}
	}
	return nil
}

func (v *view) devices() error {
	if err := os.MkdirAll(v.at("/dev"), 0o755); err != nil {
		return err
	}
	for _, name := range devices {
		if err := v.bind("/dev/"+name, "/dev/"+name, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(target, v.at("/dev/"+name)); err != nil {
			return err
		}
	}
	for _, m := range []struct{ dir, kind, options string }{
		{"/dev/pts", "devpts", "newinstance,ptmxmode=0666,mode=0620"},
		{"/dev/shm", "tmpfs", "mode=1777,size=64m"},
	} {
		if err := os.Mkdir(v.at(m.dir), 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, v.at(m.dir), m.kind, unix.MS_NOSUID|unix.MS_NOEXEC, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	return nil
}

// proc shows processes. Those of other users are left out; where that is impossible, the kernel's rules for processes of other user
// namespaces still keep their memory, files and environment from the pod.
func (v *view) proc(root bool) error {
	if err := os.Mkdir(v.at("/proc"), 0o755); err != nil {
		return err
	}
	if root {
		err := unix.Mount("proc", v.at("/proc"), "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "hidepid=2")
		if err == nil {
			return nil
		}
	}
	return v.bind("/proc", "/proc", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
}

// own shows the container's own directories, which may lie below one that is hidden.
func (v *view) own() error {
	const attributes = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	var err error
	if isBelow(v.Dir, "/tmp") {
		// Nothing is made in a directory that an earlier container of the pod could have filled with links.
		if err = os.Mkdir(v.at("/tmp"), 0o755); err == nil {
			err = unix.Mount("tmpfs", v.at("/tmp"), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size=64m")
		}
	} else {
		err = v.bind(v.Tmp, "/tmp", attributes)
	}
	if err == nil {
		err = v.bind(v.Dir, v.Dir, attributes)
	}
	if err == nil {
		err = os.MkdirAll(v.at("/var"), 0o755)
	}
	if err == nil {
		err = os.Symlink("/tmp", v.at("/var/tmp"))
	}
	if errors.Is(err, fs.ErrExist) { // the container's directory is below /var/tmp
		return nil
	}
	return err
}

// pivot makes the view the root directory and lets go of the former one.
func (v *view) pivot() error {
	if err := unix.MountSetattr(unix.AT_FDCWD, v.Mount, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("make the root directory read-only: %w", err)
	}
	if err := unix.Chdir(v.Mount); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root directory: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("let go of the former root directory: %w", err)
	}
	return unix.Chdir("/")
}

func isBelow(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}
