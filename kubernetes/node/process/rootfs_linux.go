package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// mountPoint is the directory below Config.Root where root directories are assembled. Each is
// visible only in its own mount namespace.
const mountPoint = ".root"

// podTmp is the directory for a pod's /tmp, in the pod's directory.
const podTmp = ".tmp"

// rootFS describes a container's root directory:
//
//	/usr /bin /lib /etc /opt …   the machine's, read-only, without Hidden
//	/proc                        without processes of other users; in a user namespace, with them
//	/sys                         read-only
//	/dev                         null, zero, full, random, urandom, tty, and its own pts and shm
//	/tmp /var/tmp                Tmp, or a small tmpfs
//	Dir                          the container's directory, at its own path
//	Mounts                       volumes and the files of the image
//
// It contains nothing else.
type rootFS struct {
	Mount  string // an empty directory
	Dir    string
	Tmp    string
	Hidden []string
	// User owns the directories that are created for subPaths; 0 means the user of this process.
	User   uint32
	Mounts []mount
	// ReadOnly makes Dir and Tmp read-only, except the file Message below Dir. Message may be "".
	ReadOnly bool
	Message  string
	// NoHostPaths are the paths that no hostPath volume may show.
	NoHostPaths []string
}

// alwaysHidden are directories with clusters' credentials, which are sometimes world-readable.
var alwaysHidden = []string{"/etc/kubernetes", "/etc/rancher"}

var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// enter mounts the root directory and makes it the root of the calling thread's mount namespace,
// which must not be shared with other threads. root is true if the caller has root's capabilities
// outside of a user namespace.
func (v *rootFS) enter(root bool) error {
	// Mounts made here must not propagate to other namespaces.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("separate the mount namespace: %w", err)
	}
	if err := unix.Mount("tmpfs", v.Mount, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=4m"); err != nil {
		return fmt.Errorf("mount root directory: %w", err)
	}
	proc := func() error { return v.proc(root) }
	for _, part := range []func() error{v.system, v.hide, v.devices, proc, v.ownDirs, v.volumes, v.pivot} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// at returns where a path of the new root directory is before pivot.
func (v *rootFS) at(path string) string { return filepath.Join(v.Mount, path) }

// system mounts the system's directories.
func (v *rootFS) system() error {
	for _, dir := range systemDirs {
		info, err := os.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if err := v.link(dir); err != nil {
				return err
			}
			continue
		}
		if err := v.bind(dir, dir, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV); err != nil {
			return err
		}
	}
	// /etc/resolv.conf is often a link to a file in /run.
	if target, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil && !v.shown(target) {
		return v.bind(target, target, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	}
	return nil
}

func (v *rootFS) shown(path string) bool {
	return slices.ContainsFunc(systemDirs, func(dir string) bool { return isBelow(path, dir) })
}

// bind mounts a directory or file of the machine at a path of the new root directory.
func (v *rootFS) bind(from, to string, attributes uint64) error {
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
	} else if _, missing := os.Lstat(target); missing != nil {
		err = os.WriteFile(target, nil, 0o644)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(from, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind mount %s: %w", from, err)
	}
	if attributes == 0 {
		return nil
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, target, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attributes}); err != nil {
		return fmt.Errorf("set mount attributes of %s: %w", from, err)
	}
	return nil
}

// hide mounts empty directories or files over the hidden paths.
func (v *rootFS) hide() error {
	for _, path := range slices.Concat(alwaysHidden, v.Hidden) {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue // the path does not exist
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

func (v *rootFS) devices() error {
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

// link makes the same link as the system has.
func (v *rootFS) link(name string) error {
	target, err := os.Readlink(name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(v.at(name)), 0o755); err != nil {
		return err
	}
	return os.Symlink(target, v.at(name))
}

// proc mounts /proc. As root, processes of other users are hidden. Otherwise they are visible, but
// the kernel's rules for other user namespaces protect their memory, files and environment.
func (v *rootFS) proc(root bool) error {
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

// ownDirs mounts the container's own directories, which may be below a hidden one.
func (v *rootFS) ownDirs() error {
	const writable = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	attributes := uint64(writable)
	if v.ReadOnly {
		attributes |= unix.MOUNT_ATTR_RDONLY
	}
	if err := v.tmp(attributes); err != nil {
		return err
	}
	if err := v.bind(v.Dir, v.Dir, attributes); err != nil {
		return err
	}
	if v.ReadOnly && v.Message != "" {
		if err := v.bindMessage(writable); err != nil {
			return err
		}
	}
	if v.ReadOnly && isBelow(v.Dir, "/tmp") { // only now: the directory needed a mount point in it
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(unix.AT_FDCWD, v.at("/tmp"), 0, &attr); err != nil {
			return fmt.Errorf("make /tmp read-only: %w", err)
		}
	}
	if isBelow(v.Dir, "/var/tmp") {
		return nil // the mount point of the directory made /var/tmp a directory
	}
	if err := os.MkdirAll(v.at("/var"), 0o755); err != nil {
		return err
	}
	return os.Symlink("../tmp", v.at("/var/tmp"))
}

// tmp mounts /tmp: the container's directory for temporary files, or an empty file system if the
// container's own directory must be mounted in it.
func (v *rootFS) tmp(attributes uint64) error {
	if !isBelow(v.Dir, "/tmp") {
		return v.bind(v.Tmp, "/tmp", attributes)
	}
	// Don't mount at a path in a directory that an earlier container of the pod could have filled
	// with links.
	if err := os.Mkdir(v.at("/tmp"), 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", v.at("/tmp"), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size=64m"); err != nil {
		return fmt.Errorf("mount /tmp: %w", err)
	}
	return nil
}

// bindMessage mounts the file of the termination message over itself, writable. A container of the
// pod may have replaced parts of its path by links.
func (v *rootFS) bindMessage(attributes uint64) error {
	root, err := os.OpenRoot(v.at(v.Dir))
	if err != nil {
		return err
	}
	defer root.Close()
	file, err := openBeneath(root, v.Message)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := unix.Mount(pathOf(file), pathOf(file), "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind mount %s: %w", v.Message, err)
	}
	mounted, err := openBeneath(root, v.Message)
	if err != nil {
		return err
	}
	defer mounted.Close()
	attr := unix.MountAttr{Attr_set: attributes, Attr_clr: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(int(mounted.Fd()), "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return fmt.Errorf("make %s writable: %w", v.Message, err)
	}
	return nil
}

// pivot makes the assembled directory the root directory and unmounts the previous one.
func (v *rootFS) pivot() error {
	// The kernel refuses it while a file of the mount is open for writing; it can release files
	// that were closed a moment later.
	for retries := 100; ; retries-- {
		err := unix.MountSetattr(unix.AT_FDCWD, v.Mount, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EBUSY) || retries == 0 {
			return fmt.Errorf("make the root directory read-only: %w", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := unix.Chdir(v.Mount); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root directory: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the previous root directory: %w", err)
	}
	return unix.Chdir("/")
}
